# Debian's Prometheus with the scrapes and rules of compose/monitoring. It does not run as root.
FROM debian:bookworm-slim
RUN apt-get update && \
    apt-get install -y --no-install-recommends prometheus && \
    rm -rf /var/lib/apt/lists/*
COPY compose/monitoring /monitoring
USER 65532:65532
ENTRYPOINT ["/monitoring/prometheus.sh"]
