package convert

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/client/clientset/versioned"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history"
	"gnnsched/workload/record/live"
	"gnnsched/workload/record/observe"
)

// RecordCommand returns the command.
func RecordCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "record",
		Usage: "follow a cluster and write down its nodes and pods, where pods ran and what they used",
		Description: "The record is a folder of Parquet files, which docs/reference/record-format.md describes. " +
			"Recording needs read-only rights, goes on\nwith a record that is there, and ends with Ctrl-C. Whatever ends it, " +
			"what was flushed can be read.\nIf the disk takes nothing, recording goes on in memory, drops the oldest rows in the " +
			"end, and says so.\n\nExamples:\n" +
			"   gnnsched record --out prod.record                        # until Ctrl-C\n" +
			"   gnnsched record --print-rbac | kubectl apply -f -        # the rights that it needs\n" +
			"   gnnsched record --out prod.record --keep 720h            # the last thirty days\n" +
			"   gnnsched record --out prod.record --for 24h --usage 1m\n" +
			"   gnnsched record --out prod.record --prometheus https://prometheus:9090 --prometheus-token-file token\n" +
			"   gnnsched record --out public.record --anonymise          # names become pseudonyms; the key lies beside the folder",
		Flags: cli.Grouped(append(append(cli.ClusterFlags(), recordFlags()...), cli.LogFlags()...),
			cli.Group{Heading: "with --prometheus", Flags: "prometheus " + cli.Names(promapi.Flags(prometheusPrefix))}),
		Action: runRecord,
	}
}

// prometheusPrefix begins the names of the flags about Prometheus: --key-file, without it, is the key of the pseudonyms.
const prometheusPrefix = "prometheus-"

func recordFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write to the folder `DIR`; a record that is there is continued"},
		&ucli.DurationFlag{Name: "flush", Value: 5 * time.Minute, Usage: "`TIME` between two writes to the disk; a crash loses so much at most"},
		&ucli.DurationFlag{Name: "keep", Usage: "drop pods that ended, and samples that were taken, this `TIME` ago; 0 keeps all"},
		&ucli.DurationFlag{Name: "usage", Value: 5 * time.Minute,
			Usage: "`TIME` between two measurements of what nodes and pods use, by metrics.k8s.io or --prometheus; 0 for none"},
		&ucli.StringFlag{Name: "prometheus", Usage: "measure usage by the Prometheus server at `URL`, " +
			"which scrapes the kubelets of this cluster, and not by metrics.k8s.io"},
		&ucli.DurationFlag{Name: "for", Usage: "end after this `TIME`; 0: with Ctrl-C"},
		&ucli.BoolFlag{Name: "anonymise", Usage: "replace every name by a pseudonym"},
		&ucli.StringFlag{Name: "key-file", Usage: "`FILE` with the key of the pseudonyms; made if it is missing; default: DIR.key"},
		&ucli.BoolFlag{Name: "print-rbac", Usage: "print the ClusterRole that recording needs, and end"},
	}, promapi.Flags(prometheusPrefix)...)
}

func runRecord(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.New(exit.Usage, fmt.Errorf("unexpected argument %q", c.Args().First()),
			"gnnsched record takes flags only; name the folder with --out")
	}
	if c.Bool("print-rbac") {
		return cli.Written(c)(live.RBAC(c.Duration("usage") > 0 && !c.IsSet("prometheus")))
	}
	if err := checkRecordFlags(c); err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "record", false)
	if err != nil {
		return err
	}
	defer closer.Close()
	var asked *promapi.Client
	if c.IsSet("prometheus") {
		if asked, err = promapi.ClientFromFlags(c, prometheusPrefix, log); err != nil {
			return err
		}
		defer asked.HTTP.CloseIdleConnections()
	}
	client, config, err := cli.Target(c).Connect(c.Context)
	if err != nil {
		return err
	}
	s, err := openRecording(c)
	if err != nil {
		return err
	}
	defer s.out.Close() //nolint:errcheck // a run that got that far has flushed and said what went wrong
	s.log = log
	cfg := live.Config{Client: client, Interval: c.Duration("usage"), Warn: func(text string) { log.Warn().Msg(text) }}
	switch {
	case asked != nil:
		cfg.Usage = live.Prometheus{Ask: asked, Now: time.Now}
	case cfg.Interval > 0:
		metrics, err := metricsClient(config)
		if err != nil {
			return err
		}
		cfg.Usage = live.MetricsAPI(metrics)
	}
	return s.record(c.Context, cfg)
}

func metricsClient(c *rest.Config) (versioned.Interface, error) {
	c = rest.CopyConfig(c)
	c.ContentType = "application/json" // not every server of this API has protobuf
	return versioned.NewForConfig(c)
}

func checkRecordFlags(c *ucli.Context) error {
	if c.String("out") == "" {
		return exit.New(exit.Usage, errors.New("--out is missing"), "name the folder of the record, for example --out prod.record")
	}
	if d := c.Duration("flush"); d < time.Second || d > 24*time.Hour {
		return exit.Usagef("--flush %v is not 1s to 24h", d)
	}
	if d := c.Duration("usage"); d != 0 && (d < time.Second || d > 24*time.Hour) {
		return exit.Usagef("--usage %v is not 0, and not 1s to 24h", d)
	}
	if d := c.Duration("keep"); d != 0 && d < time.Hour {
		return exit.Usagef("--keep %v is less than an hour", d)
	}
	if c.Duration("for") < 0 {
		return exit.Usagef("--for %v is negative", c.Duration("for"))
	}
	if c.IsSet("key-file") && !c.Bool("anonymise") {
		return exit.Usagef("--key-file works with --anonymise only")
	}
	for _, f := range promapi.Flags(prometheusPrefix) {
		if name := f.Names()[0]; c.IsSet(name) && !c.IsSet("prometheus") {
			return exit.New(exit.Usage, fmt.Errorf("--%s works with --prometheus only", name),
				"name the server, for example --prometheus https://prometheus:9090")
		}
	}
	if c.IsSet("prometheus") && c.Duration("usage") == 0 {
		return exit.New(exit.Usage, errors.New("--prometheus measures usage, and --usage 0 turns that off"), "leave out one of them")
	}
	return nil
}

// openRecording opens the record and reads the open state of an earlier run.
func openRecording(c *ucli.Context) (*recordRun, error) {
	dir := strings.TrimRight(c.String("out"), "/")
	s := &recordRun{
		flush: c.Duration("flush"), keep: c.Duration("keep"), length: c.Duration("for"), dir: dir, program: c.App.Version,
		now: func() int64 { return time.Now().UnixMilli() },
	}
	if record.Is(dir) {
		if err := s.resume(c.Bool("anonymise")); err != nil {
			return nil, err
		}
	}
	if c.Bool("anonymise") {
		path := cmp.Or(c.String("key-file"), dir+".key")
		key, err := keyOf(path, record.Is(dir))
		if err == nil {
			s.names, err = record.NewAnonymiser(key)
		}
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--anonymise: %s: %w", path, err), "name the key with --key-file")
		}
	}
	out, err := record.Create(dir, record.Options{})
	if err != nil {
		hint := "name another folder with --out"
		if errors.Is(err, record.ErrLocked) {
			hint = "end the other process, or " + hint
		}
		return nil, exit.New(exit.Usage, err, hint)
	}
	s.out = out
	return s, nil
}

// keyOf reads the key of the pseudonyms, or makes one. A record that goes on needs the key that it began with.
func keyOf(path string, goesOn bool) ([]byte, error) {
	text, err := files.Read(path, files.Text)
	if err == nil {
		return hex.DecodeString(strings.TrimSpace(string(text)))
	}
	if !errors.Is(err, os.ErrNotExist) || goesOn {
		return nil, err
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	return key, os.WriteFile(path, []byte(hex.EncodeToString(key)+"\n"), 0o600)
}

// resume reads the open state of an earlier run.
func (s *recordRun) resume(anonymised bool) error {
	old, err := record.Open(s.dir)
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	runs, err1 := old.Runs()
	open, err2 := old.Unfinished()
	if err := errors.Join(err1, err2); err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	for _, r := range runs {
		if r.Anonymised != anonymised {
			return exit.New(exit.Usage, fmt.Errorf("%s: the record has names of another kind: anonymised %v, now %v",
				s.dir, r.Anonymised, anonymised), "set --anonymise as before, or name another folder with --out")
		}
	}
	s.open, s.damaged = open, old.Damaged()
	return nil
}

// recordRun is one run of the command.
type recordRun struct {
	dir, program        string
	out                 *record.Writer
	names               *record.Anonymiser
	open                record.State
	damaged             []string
	flush, keep, length time.Duration
	now                 func() int64
	log                 zerolog.Logger
	failing             bool // the last flush failed
	lost                int64
	refused             int64
	trouble             live.Trouble // that was logged
	run                 record.Run   // the row about this run
}

// toRecord makes a record of Prometheus' history, or a new one of kubectl's output or of a trace.
func toRecord(c *ucli.Context, log zerolog.Logger) error {
	dir := c.String("out")
	if c.IsSet("prometheus") {
		return historyToRecord(c, log)
	}
	if record.Is(dir) {
		return exit.New(exit.Usage, fmt.Errorf("%s is a record already", dir), "name another folder with --out")
	}
	if isTraces(c.Args().Slice()) {
		return traceToRecord(c, log)
	}
	return recording.FromKubectl(dir, c.App.Version, c.Args().Slice(), log)
}

// record follows the cluster until the context ends, the time is over or the cluster refuses.
func (s *recordRun) record(ctx context.Context, cfg live.Config) error {
	for _, d := range s.damaged {
		s.log.Warn().Msg("a part of the record is damaged and is left as it is: " + d)
	}
	cfg.Follower = observe.NewFollower(observe.Config{Out: s.out, Now: s.now, Open: s.open, Anonymise: s.names})
	s.open = record.State{} // the follower has it
	cfg.Sample = func(m record.Sample) {
		record.Anonymise(s.names, &m)
		s.out.Sample(m)
	}
	begin := s.now()
	s.run = record.Run{ID: strconv.FormatInt(begin, 36), Source: "live", From: begin, Anonymised: s.names != nil, Program: s.program}
	work, stop := context.WithCancel(ctx)
	defer stop()
	if s.length > 0 {
		work, stop = context.WithTimeout(work, s.length)
		defer stop()
	}
	r := live.New(cfg)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(work) }()
	s.log.Info().Str("out", s.dir).Msg("recording; Ctrl-C ends it and keeps the record")
	err := s.wait(r, cfg.Follower, ended)
	s.save(r, cfg.Follower, false)
	if s.failing {
		return exit.New(exit.Internal, fmt.Errorf("%s: the last rows could not be written", s.dir),
			"make room on the disk; what was written before can be read")
	}
	return err
}

// wait saves what happened now and then, until the recorder has ended.
func (s *recordRun) wait(r *live.Recorder, f *observe.Follower, ended chan error) error {
	first := time.NewTimer(min(s.flush, 10*time.Second)) // so that a short look at the cluster shows something
	defer first.Stop()
	tick := time.NewTicker(s.flush)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-first.C:
		case <-tick.C:
		}
		s.save(r, f, true)
	}
}

// save flushes the rows and reports the progress of the recording.
func (s *recordRun) save(r *live.Recorder, f *observe.Follower, merge bool) {
	s.run.To, s.run.Missing = s.now(), strings.Join(r.Lacks(), "; ")
	s.out.Run(s.run)
	done, err := s.out.Flush()
	switch {
	case err != nil && !s.failing:
		s.log.Error().Err(err).Int("rows", done.Pending).Msg("the disk does not take the record; recording goes on in memory")
	case err == nil && s.failing:
		s.log.Info().Msg("the disk takes the record again")
	}
	s.failing = err != nil
	if done.Lost > s.lost {
		s.log.Error().Int64("rows", done.Lost).Msg("the memory for the record is full; the oldest rows were dropped")
		s.lost = done.Lost
	}
	if r := done.Refused; r.Rows > s.refused {
		s.log.Warn().Int64("rows", r.Rows).AnErr("first", r.First).Msg("left out, because no cluster has such objects")
		s.refused = r.Rows
	}
	if merge && err == nil {
		cutoff := int64(0)
		if s.keep > 0 {
			cutoff = s.now() - s.keep.Milliseconds()
		}
		if err := s.out.Merge(cutoff); err != nil {
			s.log.Warn().Err(err).Msg("parts of the record stay as they are, because they cannot be merged")
		}
	}
	if t := r.Trouble(); t != s.trouble {
		s.log.Info().Int("failed", t.Failed).Int("invalid", t.Invalid).Int("unknown", t.Unknown).
			Int("noPods", t.NoPods).Int("noNodes", t.NoNodes).Msg("usage that Prometheus did not give, since the beginning")
		s.trouble = t
	}
	c := f.Counts()
	s.log.Info().Int("nodes", c.Nodes).Int("pods", c.Pods).Int("waiting", c.Waiting).Int("arrived", c.Arrived).Int("bound", c.Bound).
		Int("ended", c.Ended).Str("owners", c.Owners).
		Str("size", recordSize(s.dir)).Msg("recorded")
}

// recordSize returns the size of the files in a folder, for people.
func recordSize(dir string) string {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // a file may go while we look
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	if total < 1<<20 {
		return fmt.Sprintf("%d kB", (total+1023)/1024)
	}
	return fmt.Sprintf("%.1f MB", float64(total)/(1<<20))
}

// prometheusFlags are the flags of a record of Prometheus' history.
func prometheusFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.StringFlag{Name: "prometheus", Usage: "make a record of the history that the Prometheus server at `URL` has, or go on with one; " +
			"needs --from and --out"},
		&ucli.StringFlag{Name: "from", Usage: "with --prometheus, begin at `TIME`, such as 2026-03-01T00:00:00Z"},
		&ucli.StringFlag{Name: "to", Usage: "with --prometheus, end at `TIME`; default: now"},
		&ucli.DurationFlag{Name: "chunk", Value: time.Hour, Usage: "with --prometheus, `TIME` that one query covers"},
		&ucli.DurationFlag{Name: "usage", Value: 5 * time.Minute,
			Usage: "with --prometheus, `TIME` between two measurements of usage; 0 for none"},
	}, promapi.Flags("")...)
}

// historyToRecord makes a record of Prometheus' data, or continues the record of an earlier call.
func historyToRecord(c *ucli.Context, log zerolog.Logger) (err error) {
	if c.NArg() > 0 {
		return exit.Usagef("%s: --prometheus reads no files", c.Args().First())
	}
	conf, err := historyConfig(c)
	if err != nil {
		return err
	}
	client, err := promapi.ClientFromFlags(c, "", log)
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	out, err := record.Create(c.String("out"), record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	defer func() { err = errors.Join(err, recording.Closed(out, log)) }()
	if record.Is(c.String("out")) {
		if conf.Earlier, err = history.Resume(c.String("out")); err != nil {
			return exit.New(exit.Usage, err, "name another folder with --out")
		}
		if until := conf.Earlier.Until; until.After(conf.From) {
			conf.From = until
		}
		if !conf.To.After(conf.From) {
			log.Info().Time("until", conf.Earlier.Until).Msg("the record is complete already")
			return nil
		}
		log.Info().Time("from", conf.From).Msg("going on with the record")
	}
	view := cli.NewBar(c.App.ErrWriter, cli.OnTerminal(), log)
	defer view.Close()
	conf.Out = out
	conf.Ask = client
	conf.Progress = func(done float64, pods int) { view.Show(done, "reading", fmt.Sprintf("read %d pods", pods)) }
	got, err := history.Read(c.Context, conf)
	if err != nil {
		return historyError(c.Context, c.String("prometheus"), err)
	}
	for _, w := range got.Wrong {
		log.Warn().Str("lacks", w).Msg("series of Prometheus do not fit each other, or have gaps")
	}
	log.Info().Str("out", c.String("out")).Int("nodes", got.Nodes).Int("pods", got.Pods).Str("owners", got.Owners).
		Str("lacks", got.Missing).Msg("converted")
	return nil
}

// historyError tells a Prometheus that does not answer from a disk that takes no rows.
func historyError(ctx context.Context, address string, err error) error {
	const again = "; the same command goes on where it ended"
	var refused promapi.Refused
	var unanswered history.Unanswered
	var several history.SeveralClusters
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &several):
		return exit.New(exit.Usage, err, fmt.Sprintf("choose one: --cluster-label %s=%s", several.Label, several.Values[0]))
	case errors.As(err, &refused):
		return exit.New(exit.Unreachable, err, "a shorter --chunk asks for less at once; --from must lie within what Prometheus keeps"+again)
	case errors.As(err, &unanswered):
		known := promapi.Explain(fmt.Errorf("%s: %w", address, err), "")
		known.Hint += again
		return known
	}
	return exit.New(exit.Internal, fmt.Errorf("write the record: %w", err), "make room on the disk of --out"+again)
}

// historyConfig reads the times.
func historyConfig(c *ucli.Context) (history.Config, error) {
	conf := history.Config{To: time.Now(), Chunk: c.Duration("chunk"), Usage: c.Duration("usage"), Program: c.App.Version, Pause: pause}
	for _, t := range []struct {
		flag string
		to   *time.Time
	}{{"from", &conf.From}, {"to", &conf.To}} {
		if c.String(t.flag) == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, c.String(t.flag))
		if err != nil || at.Unix() <= 0 {
			return conf, exit.Usagef("--%s: %q is no time such as 2026-03-01T12:00:00Z", t.flag, c.String(t.flag))
		}
		*t.to = at
	}
	switch {
	case conf.From.IsZero():
		return conf, exit.Usagef("--prometheus needs --from, the time at which the record begins")
	case !conf.To.After(conf.From):
		return conf, exit.Usagef("--to is not after --from")
	case conf.Chunk < time.Minute || conf.Chunk > 24*time.Hour:
		return conf, exit.Usagef("--chunk %v is not 1m to 24h", conf.Chunk)
	case conf.Usage != 0 && (conf.Usage < 15*time.Second || conf.Usage > conf.Chunk):
		return conf, exit.Usagef("--usage %v is not 0, and not 15s to --chunk", conf.Usage)
	}
	return conf, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
