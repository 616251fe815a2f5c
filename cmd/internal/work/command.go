// Package work has the command `gnnsched work`, and the flag --workers of the commands that give work away.
package work

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/metric"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/remote"
)

// Handlers returns what computes the units of gnnsched work.
type Handlers func() map[string]workers.Handler

// Command returns the command gnnsched work.
func Command(h Handlers) *ucli.Command {
	return &ucli.Command{
		Name: "work", Usage: "play the episodes of evaluations on other machines",
		Description: "gnnsched eval --workers URL puts its episodes into a queue at that URL, and workers play them. " +
			"One of the workers can have the\nqueue, or any NATS server with JetStream. A worker gets the episodes of the same program on the " +
			"same kind of processor only,\nso that results are the same to the last digit. It ends on Ctrl-C or SIGTERM after what it plays, " +
			"and others go on.\n\nExamples:\n" +
			"   gnnsched work --listen 127.0.0.1:4222                  # a queue and a worker for this machine's evaluations\n" +
			"   gnnsched eval --workers nats://127.0.0.1:4222          # … which they use\n" +
			"   gnnsched work --connect nats://127.0.0.1:4222          # another worker\n" +
			"   gnnsched work --listen 0.0.0.0:4222 --tls-dir queue-tls\n" +
			"   gnnsched work --connect tls://queue:4222 --tls-dir my-tls",
		Flags: cli.Grouped(slices.Concat([]ucli.Flag{
			&ucli.StringFlag{Name: "connect", Usage: "take work from the queue at this `URL`"},
			&ucli.StringFlag{Name: "listen", Usage: "have a queue at this `ADDRESS`, HOST:PORT; another host than 127.0.0.1 needs certificates"},
			&ucli.IntFlag{Name: "slots", Value: runtime.GOMAXPROCS(0), DefaultText: "the number of processors",
				Usage: "`NUMBER` of episodes at a time; 0 with --listen: none"},
			&ucli.DurationFlag{Name: "grace", Value: 20 * time.Second,
				Usage: "when told to end, `TIME` for the episodes that are at work; others get the rest"},
			&ucli.DurationFlag{Name: "idle", Usage: "end after this `TIME` without work; 0: never"},
			&ucli.StringFlag{Name: "metrics-address", Usage: "serve /metrics and /healthz at this `ADDRESS`, such as 127.0.0.1:9090"},
			&ucli.StringFlag{Name: "child", Hidden: true},
			approximate(),
		}, queueFlags(), cli.LogFlags()),
			cli.Group{Heading: "certificates, with --listen on other hosts and with tls:// URLs",
				Flags: "tls-dir"}),
		Action: cli.FlagsOnly(h.run),
	}
}

func (h Handlers) run(c *ucli.Context) error {
	if dir := c.String("child"); dir != "" {
		// Not the program's own writer: in a locale without UTF-8 it makes other bytes of those that spell a sign.
		return workers.Child(c.Context, dir, h(), os.Stdin, os.Stdout)
	}
	url, listen := c.String("connect"), c.String("listen")
	switch {
	case (url == "") == (listen == ""):
		return exit.Usagef("give --connect with the URL of a queue, or --listen with an address for a new one")
	case c.Int("slots") < 0 || c.Int("slots") > 10_000 || c.Int("slots") == 0 && listen == "":
		return exit.Usagef("--slots %d: choose 1 to 10000", c.Int("slots"))
	case c.Duration("grace") < 0 || c.Duration("idle") < 0:
		return exit.Usagef("--grace and --idle must be 0 or more")
	}
	log, closer, err := cli.Log(c, "work", false)
	if err != nil {
		return err
	}
	defer closer.Close()
	var q *workers.Queue
	if listen != "" {
		server, err := serve(c, listen, log)
		if err != nil {
			return err
		}
		defer server.Close()
		log.Info().Str("url", server.URL()).Msg("the queue waits for episodes and workers")
		if q, err = connect(c.Context, server); err != nil {
			return err
		}
	} else if q, err = dial(c, url); err != nil {
		return err
	}
	defer q.Close()
	return work(c, q, log)
}

const roomHint = "make room in the folder of --queue (2 GiB), or name another"

// serve starts the queue of --listen; "" listens nowhere.
func serve(c *ucli.Context, listen string, log zerolog.Logger) (*workers.Server, error) {
	tls, err := queueTLS(c)
	if err != nil {
		return nil, err
	}
	s, err := workers.Serve(workers.Serving{Dir: c.String("queue"), Listen: listen, TLS: tls, Log: log})
	if errors.Is(err, workers.ErrInUse) {
		return nil, exit.New(exit.Usage, err, "use that one with --workers or --connect and its URL, or choose another folder with --queue")
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil, exit.New(exit.Usage, err, roomHint)
	}
	if err != nil {
		return nil, exit.New(exit.Usage, err, "docs/how-to/workers.md describes addresses and certificates")
	}
	return s, nil
}

// connect connects to the queue of this process, which reserves its space.
func connect(ctx context.Context, server *workers.Server) (*workers.Queue, error) {
	q, err := server.Connect(ctx)
	if err != nil {
		return nil, exit.New(exit.Usage, err, roomHint)
	}
	return q, nil
}

// dial connects to the queue at a URL.
func dial(c *ucli.Context, url string) (*workers.Queue, error) {
	options, err := queueOptions(c, url)
	if err != nil {
		return nil, err
	}
	q, err := workers.Connect(c.Context, url, options...)
	if err != nil {
		return nil, unreachable(err)
	}
	return q, nil
}

// work computes units until the command ends.
func work(c *ucli.Context, q *workers.Queue, log zerolog.Logger) error {
	if c.Bool("approximate") {
		if err := q.Approximate(c.Context); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	name = fmt.Sprintf("%s-%d", name, os.Getpid())
	w := &workers.Worker{
		Queue: q, Name: name, Slots: c.Int("slots"), Command: []string{program, "work", "--child"},
		Limit: time.Hour, Grace: c.Duration("grace"), Idle: c.Duration("idle"), Log: log,
	}
	running, stop := context.WithCancel(c.Context)
	defer stop()
	all, ctx := errgroup.WithContext(running)
	if address := c.String("metrics-address"); address != "" {
		all.Go(func() error {
			return metric.Serve(ctx, address, func() error {
				if !q.Connected() {
					return errors.New("no connection to the queue")
				}
				return nil
			})
		})
	}
	all.Go(func() error {
		log.Info().Str("name", name).Int("slots", w.Slots).Str("build", q.Build()).Msg("waiting for episodes")
		defer stop() // the metrics
		return w.Run(ctx)
	})
	err = all.Wait()
	if err == nil {
		err = context.Cause(c.Context)
	}
	return err
}

// Flags returns --workers, and the flags of its queue.
func Flags() []ucli.Flag {
	return slices.Concat([]ucli.Flag{
		&ucli.StringFlag{Name: "workers", Value: auto,
			Usage: "who plays: auto (this process), `N` processes, or the workers of the queue at a URL; see the command work"},
		approximate(),
	}, queueFlags())
}

func approximate() ucli.Flag {
	return &ucli.BoolFlag{Name: "approximate",
		Usage: "also on other kinds of processors, whose workers are started with it too; results may differ in the last digits"}
}

// FlagNames are the names of Flags, for the help.
const FlagNames = "workers approximate queue tls-dir"

const auto = "auto"

// Begin lets the command's context play episodes where --workers says, until the workers are closed. bar tells of them; nil for auto.
func Begin(c *ucli.Context, bar *cli.Bar) (*Pool, error) {
	pool, err := Enlist(c, bar.Note)
	if err == nil && pool != nil {
		c.Context = eval.Within(pool.Until(c.Context), &remote.Players{Queue: pool.Queue, Waiting: pool.Waiting, Played: pool.Result})
	}
	return pool, err
}

// Enlist starts the processes of --workers, or connects to its queue. It returns nil for auto. note is told who works and who is slow, when
// that changes, one call at a time.
func Enlist(c *ucli.Context, note func(text string)) (*Pool, error) {
	text := c.String("workers")
	if text == auto || text == "" {
		return nil, nil
	}
	pool := &Pool{
		note: note, took: map[string]time.Duration{}, played: map[string]int{},
		asks: rate.Sometimes{Interval: 5 * time.Second},
	}
	pool.ask = func() (string, error) { return present(pool.Queue) }
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		pool.Queue, err = queueOf(c, text)
		pool.Context, pool.close = context.WithoutCancel(c.Context), pool.Queue.Close
	case n < 1 || n > 1000:
		err = exit.Usagef("--workers %d: choose 1 to 1000 processes, auto, or the URL of a queue", n)
	default:
		err = pool.start(c, n)
	}
	if err != nil {
		return nil, err
	}
	return pool, nil
}

// Until returns a context that ends with the workers, or with another.
func (c *Pool) Until(other context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(other)
	context.AfterFunc(c.Context, func() { cancel(context.Cause(c.Context)) })
	return ctx
}

// start starts n processes of this machine, over a queue that nobody else sees.
func (c *Pool) start(command *ucli.Context, n int) error {
	log := zerolog.New(zerolog.ConsoleWriter{Out: command.App.ErrWriter, NoColor: true,
		PartsExclude: []string{zerolog.TimestampFieldName}}).Level(zerolog.WarnLevel)
	server, err := serve(command, "", log)
	if err != nil {
		return err
	}
	if c.Queue, err = connect(command.Context, server); err != nil {
		server.Close()
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	w := &workers.Worker{
		Queue: c.Queue, Name: "this machine", Slots: n, Command: []string{program, "work", "--child"}, Limit: 24 * time.Hour,
		Log: log,
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(command.Context))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(w.Run(ctx))
	}()
	c.Context, c.close = ctx, func() {
		cancel(nil)
		<-ended
		c.Queue.Close()
		server.Close()
	}
	return nil
}

// Pool are the workers of --workers. It counts what each of them played.
type Pool struct {
	Queue   *workers.Queue
	Context context.Context // ends when they do; not with the command's
	close   func()

	took   map[string]time.Duration // by worker: together
	played map[string]int           // by worker: episodes, or courses

	asks rate.Sometimes
	ask  func() (string, error) // who works; it takes half a second

	mu    sync.Mutex
	note  func(text string) // nil: closed
	said  string            // to note
	alive string            // what ask returned last
	slow  string            // who is slow; empty for nobody
}

// checkURL refuses what --workers cannot be, if it is no number.
func checkURL(text string) error {
	if !strings.Contains(text, "://") {
		return exit.Usagef("--workers %q: give a number of processes, auto, or a URL such as nats://127.0.0.1:4222", text)
	}
	return nil
}

// queueOf connects to the queue of --workers.
func queueOf(c *ucli.Context, text string) (*workers.Queue, error) {
	if err := checkURL(text); err != nil {
		return nil, err
	}
	q, err := dial(c, text)
	if err == nil && c.Bool("approximate") {
		err = q.Approximate(c.Context)
	}
	return q, err
}

// present counts the workers that answer. That nobody does is an error.
func present(queue *workers.Queue) (string, error) {
	all, err := queue.Workers(500 * time.Millisecond)
	slots, ours, others := 0, 0, 0
	for _, w := range all {
		switch {
		case w.Slots == 0: // it has the queue only
		case w.Build == queue.Build():
			slots += w.Slots
			ours++
		default:
			others++
		}
	}
	switch {
	case err != nil:
		return "", exit.New(exit.Unreachable, fmt.Errorf("the queue does not answer: %w", err), "")
	case slots == 0 && others > 0:
		return "", exit.New(exit.Unreachable, fmt.Errorf("no worker of this program on this kind of processor answers, but %d others", others),
			"start the same program there, or for other processors both with --approximate")
	case slots == 0:
		return "", exit.New(exit.Unreachable, errors.New("no worker answers"), "start gnnsched work --connect with the queue's URL")
	}
	text := fmt.Sprintf("%s with %s", number(ours, "worker"), number(slots, "slot"))
	if others > 0 {
		text += fmt.Sprintf(", and %d of other programs or processors", others)
	}
	return text, nil
}

func number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Close ends the workers that Enlist started. There may be none.
func (c *Pool) Close() {
	if c != nil {
		c.mu.Lock()
		c.note = nil
		c.mu.Unlock()
		c.close()
	}
}

// mean returns how long a worker takes for a result.
func (c *Pool) mean(worker string) time.Duration {
	return c.took[worker] / time.Duration(c.played[worker])
}

// Waiting asks who works, unless it did within the last five seconds. It does not wait for the answer.
func (c *Pool) Waiting() {
	c.asks.Do(func() {
		go func() {
			text, err := c.ask()
			if err != nil {
				text = err.Error()
			}
			c.tell(&c.alive, text)
		}()
	})
}

// tell sets a part of the note.
func (c *Pool) tell(part *string, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*part = text
	if text = strings.Trim(c.alive+"; "+c.slow, "; "); c.note != nil && text != c.said {
		c.said = text
		c.note(text)
	}
}

// Result counts an episode, and names a worker that takes half as long again as all do.
func (c *Pool) Result(r workers.Result) {
	c.Waiting()
	c.took[r.Worker] += r.Took
	c.played[r.Worker]++
	var took time.Duration
	played, slowest := 0, ""
	for name, n := range c.played {
		took += c.took[name]
		if played += n; n >= 3 && (slowest == "" || c.mean(name) > c.mean(slowest)) {
			slowest = name
		}
	}
	slow := ""
	if slowest != "" && 2*c.mean(slowest) > 3*took/time.Duration(played) {
		slow = fmt.Sprintf("%s is slow, %v each", slowest, c.mean(slowest).Round(time.Millisecond))
	}
	c.tell(&c.slow, slow)
}

// queueFlags returns the flags.
func queueFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "queue", Value: defaultDir(), DefaultText: "~/.cache/gnnsched/queue",
			Usage: "`FOLDER` of a queue of this machine, and of its token"},
		&ucli.StringFlag{Name: "tls-dir",
			Usage: "`FOLDER` with this process's certificate and key, tls.crt and tls.key, and the CA of all, ca.crt, in PEM"},
	}
}

func defaultDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "gnnsched", "queue")
}

// queueTLS returns the configuration of the flags; nil for none.
func queueTLS(c *ucli.Context) (*tls.Config, error) {
	dir := c.String("tls-dir")
	if dir == "" {
		return nil, nil
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	config, err := workers.Certificates{Cert: in("tls.crt"), Key: in("tls.key"), CA: in("ca.crt")}.TLS()
	if err != nil {
		err = exit.New(exit.Usage, fmt.Errorf("certificates: %w", err), "--tls-dir is a folder with tls.crt, tls.key and ca.crt")
	}
	return config, err
}

// Environment variables with the name and password for a server. Other users of a machine see a command line, but not these.
const userEnv, passwordEnv = "NATS_USER", "NATS_PASSWORD"

// checkQueueURL refuses a URL with a password in it.
func checkQueueURL(url string) error {
	if strings.Contains(url, "@") {
		return exit.New(exit.Usage, errors.New("the URL of the NATS server has a name or password, which others see in lists of processes"),
			"leave it out, and set "+userEnv+" and "+passwordEnv+" in the environment")
	}
	return nil
}

// queueOptions returns how a command connects to a URL.
func queueOptions(c *ucli.Context, url string) (out []nats.Option, err error) {
	if err := checkQueueURL(url); err != nil {
		return nil, err
	}
	if user := os.Getenv(userEnv); user != "" {
		out = append(out, nats.UserInfo(user, os.Getenv(passwordEnv)))
	}
	tls, err := queueTLS(c)
	switch token, missing := workers.Token(c.String("queue")); {
	case err != nil:
		return nil, err
	case tls != nil:
		out = append(out, nats.Secure(tls))
	case !workers.Loopback(url): // the token is for this machine
	case missing == nil:
		out = append(out, token)
	case !errors.Is(missing, os.ErrNotExist): // a server may want no token
		return nil, exit.New(exit.Usage, missing, "name the folder of the queue with --queue")
	}
	return out, nil
}

// unreachable returns the error of a command that could not connect.
func unreachable(err error) error {
	hint := "start a queue with gnnsched work --listen, or correct the URL"
	var remote *net.OpError // what the server says of this process's certificate
	switch refused := new(jetstream.APIError); {
	case errors.Is(err, nats.ErrTLS), errors.As(err, &remote) && remote.Op == "remote error", errors.Is(err, nats.ErrSecureConnRequired):
		hint = "give --tls-dir with certificates of the server's authority, and the URL with a name in the server's certificate"
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		hint = "switch JetStream on at the server, and give its disk room: the queue reserves 2 GiB"
	case errors.As(err, &refused):
		hint = "make room on the server's disk: the queue reserves 2 GiB"
	case errors.Is(err, nats.ErrAuthorization):
		hint = "name the folder of the queue on this machine with --queue, give certificates of its authority, or set " + userEnv + " and " +
			passwordEnv
	}
	return exit.New(exit.Unreachable, err, hint)
}
