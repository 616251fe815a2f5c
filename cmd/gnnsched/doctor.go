//go:build !service

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gnnsched/deploy"
	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/serve"
	"gnnsched/workload/record/live"
)

// examinedProgram is a program or command whose rights are checked.
type examinedProgram struct {
	name  string
	rules func() ([]deploy.Rule, error)
	hint  string // what to do if a right is missing
}

var examinedPrograms = []examinedProgram{
	{"rungnn", deployedRules(""), "bind the roles of `gnnsched deploy --print`, or use another user with --context"},
	{"share", deployedRules("replacement"), "bind the roles of `gnnsched deploy --print --mode replacement`; docs/how-to/canary.md says why"},
	{"record", everywhere(live.Rules(true)...), "bind the role of `gnnsched record --print-rbac`; without metrics.k8s.io, add --usage 0"},
	{"shadow", everywhere(slices.Concat(serve.Rules(), serve.DelegatedRules())...), "bind the role of `gnnsched shadow --print-rbac`"},
	{"serve", everywhere(serve.Rules()...), "bind the role of `gnnsched serve --print-rbac`"},
	{"ktop", everywhere(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list", "watch"}}),
		"give them to the user of the kubeconfig"},
}

// deployedRules returns the rules of the roles that `gnnsched deploy` prints in a mode.
func deployedRules(mode string) func() ([]deploy.Rule, error) {
	return func() ([]deploy.Rule, error) {
		return deploy.Rules(deploy.Options{Name: "gnnsched", Namespace: "gnnsched", Mode: mode})
	}
}

// everywhere returns rules for all namespaces.
func everywhere(rules ...rbacv1.PolicyRule) func() ([]deploy.Rule, error) {
	return func() (out []deploy.Rule, _ error) {
		return each.Map(rules, func(r rbacv1.PolicyRule) deploy.Rule { return deploy.Rule{PolicyRule: r} }), nil
	}
}

func examinedNames() []string {
	return each.Map(examinedPrograms, func(p examinedProgram) string { return p.name })
}

// doctorCommand returns the command.
func doctorCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "doctor",
		Usage:     "check the cluster, its version and this user's rights there, and say what to do",
		ArgsUsage: "[PROGRAM...]",
		Description: "It changes nothing. The programs are " + strings.Join(examinedNames(), ", ") + "; without arguments rungnn. " +
			"share is `rungnn --share`.\nThe exit code is that of the first failure.\n\nExamples:\n" +
			"   gnnsched doctor                               # may this user schedule, and does the API server's version fit?\n" +
			"   gnnsched doctor --context production record",
		Flags:  cli.ClusterFlags(),
		Action: runDoctor,
	}
}

func runDoctor(c *ucli.Context) error {
	asked := c.Args().Slice()
	if len(asked) == 0 {
		asked = []string{"rungnn"}
	}
	for _, name := range asked {
		if !slices.Contains(examinedNames(), name) {
			return exit.New(exit.Usage, choice.Unknown("program", name, examinedNames()), "")
		}
	}
	e := examination{out: c.App.Writer}
	target := cli.Target(c)
	if rest, err := target.REST(); err == nil {
		e.note("ok", "kubeconfig", fmt.Sprintf("context %q, server %s", target.Name(), rest.Host), "")
	}
	client, _, err := target.Connect(c.Context)
	if err != nil {
		e.fail("cluster", err, "")
		return e.verdict()
	}
	e.cluster(c.Context, client, asked)
	return e.verdict()
}

// examination prints one line for each check.
type examination struct {
	out   io.Writer
	fault error // the first failure, or an error of out
}

// longestDetail bounds a detail in bytes, because details may quote text from outside, such as the API server's version.
const longestDetail = 600

func (e *examination) note(state, what, detail, hint string) {
	text := fmt.Sprintf("%-4s  %-13s  %s\n", state, what, strings.ReplaceAll(exit.Clean(detail, longestDetail), "\n", " "))
	if hint != "" {
		text += fmt.Sprintf("%-4s  %-13s  -> %s\n", "", "", hint)
	}
	if _, err := io.WriteString(e.out, text); err != nil {
		e.fault = cmp.Or(e.fault, err)
	}
}

// fail prints an error with its own hint, or else with hint.
func (e *examination) fail(what string, err error, hint string) {
	if known := (*exit.Error)(nil); errors.As(err, &known) {
		hint = cmp.Or(known.Hint, hint)
	}
	e.note("FAIL", what, err.Error(), hint)
	if e.fault == nil {
		e.fault = exit.New(exit.Code(err), fmt.Errorf("a check failed: %s", what), "the list above says what to do")
	}
}

func (e *examination) verdict() error { return e.fault }

// cluster checks the API server's version and the rights that programs need.
func (e *examination) cluster(ctx context.Context, client kubernetes.Interface, asked []string) {
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		e.fail("cluster", kubeconfig.Explain(err), "")
		return
	}
	switch fit, problem := kuberelease.Check(info.GitVersion); fit {
	case kuberelease.Fits:
		e.note("ok", "cluster", "Kubernetes "+info.GitVersion, "")
	case kuberelease.TooNew:
		e.fail("cluster", exit.New(exit.Unreachable, fmt.Errorf("Kubernetes %s", info.GitVersion), problem), "")
	default:
		e.note("no", "cluster", "Kubernetes "+info.GitVersion, problem)
	}
	for _, p := range examinedPrograms {
		if slices.Contains(asked, p.name) {
			e.rights(ctx, client, p)
		}
	}
	if slices.ContainsFunc(asked, func(name string) bool { return name == "rungnn" || name == "share" }) {
		e.admitted(ctx, client)
	}
}

// admitted tells by dry runs whether the cluster admits pods such as those of `gnnsched deploy`, and which value makes it do so. A user who
// may not make pods learns nothing.
func (e *examination) admitted(ctx context.Context, client kubernetes.Interface) {
	try := func(class string, user *int64) error {
		_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "gnnsched-doctor"},
			Spec: corev1.PodSpec{
				PriorityClassName: class, Containers: []corev1.Container{{Name: "scheduler", Image: "gnnsched"}},
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: user, FSGroup: user},
			},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	lacks, _, err := kubeconfig.Lacking(ctx, client, metav1.NamespaceDefault,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}})
	if err != nil || len(lacks) > 0 {
		return
	}
	const classless, anyUser = "add --set priorityClassName= to `gnnsched deploy`", "add --set userID=0 to `gnnsched deploy`"
	_, err = client.Discovery().ServerResourcesForGroupVersion("security.openshift.io/v1")
	openShift := err == nil
	const critical = "system-cluster-critical"
	user := ptr.To[int64](65532)
	switch err := try(critical, user); {
	case openShift:
		e.note("no", "deploy", "OpenShift chooses the users of pods", anyUser)
	case err == nil:
		e.note("ok", "deploy", "the cluster admits its pods", "")
	case try("", user) == nil:
		e.note("no", "deploy", err.Error(), classless)
	case try(critical, nil) == nil:
		e.note("no", "deploy", err.Error(), anyUser)
	default:
		e.note("no", "deploy", err.Error(), "ask who runs the cluster what its pods must have")
	}
}

// rights checks what a program needs.
func (e *examination) rights(ctx context.Context, client kubernetes.Interface, p examinedProgram) {
	what := p.name + " rights"
	rules, err := p.rules()
	var missing []string
	total := 0
	for _, r := range rules {
		if err == nil {
			var lacks []string
			var asked int
			lacks, asked, err = kubeconfig.Lacking(ctx, client, r.Namespace, r.PolicyRule)
			missing, total = append(missing, lacks...), total+asked
		}
	}
	switch {
	case err != nil:
		e.fail(what, kubeconfig.Explain(err), "every user may ask for their own rights (SelfSubjectAccessReview); does the cluster answer?")
	case len(missing) > 0:
		lack := fmt.Errorf("%d of %d are missing: %s", len(missing), total, strings.Join(missing, ", "))
		e.fail(what, exit.New(exit.Kubeconfig, lack, p.hint), "")
	default:
		e.note("ok", what, fmt.Sprintf("all %d", total), "")
	}
}

// placeholder is the image in the chart's values.
const placeholder = "gnnsched/scheduler:latest"

// deployCommand returns the command.
func deployCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "deploy",
		Usage: "print the manifests that run the scheduler on a cluster",
		Description: "It renders the Helm chart in deploy/chart, with Helm's engine, and needs no Helm. It changes nothing.\n" +
			"docs/how-to/deploy.md says how to check, switch, upgrade and go back.\n\n" +
			"Examples:\n" +
			"   gnnsched deploy --print --set image=registry.example/gnnsched:v1 | kubectl apply --server-side -f -\n" +
			"   gnnsched deploy --print --mode replacement             # for the pods of default-scheduler\n" +
			"   gnnsched deploy --print --set command=runacgnn --set args={--preferences=declared}\n" +
			"   gnnsched deploy --print --set checkpoint.configMap=weights --set checkpoint.file=my.safetensors\n" +
			"   gnnsched deploy --print-values > values.yaml           # to edit it\n" +
			"   gnnsched deploy --print --values values.yaml",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "print", Usage: "print the manifests"},
			&ucli.BoolFlag{Name: "print-values", Usage: "print the values that can be set, with their defaults, and exit"},
			&ucli.StringFlag{Name: "mode", Usage: "`MODE` second, beside the default scheduler, or replacement; default: as the values say, second"},
			&ucli.StringFlag{Name: "name", Value: "gnnsched", Usage: "`NAME` of the objects"},
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "gnnsched", Usage: "`NAMESPACE` of the scheduler's pods"},
			&ucli.StringSliceFlag{Name: "values", Aliases: []string{"f"}, Usage: "YAML `FILE` with values; may be given more than once"},
			&ucli.StringSliceFlag{Name: "set", Usage: "set one value, as `NAME=VALUE`; may be given more than once"},
		},
		Action: cli.FlagsOnly(func(c *ucli.Context) error { return cli.Written(c)(manifests(c)) }),
	}
}

// manifests returns the manifests that the flags select.
func manifests(c *ucli.Context) ([]byte, error) {
	switch {
	case c.Bool("print-values"):
		return deploy.Values()
	case c.Bool("print"):
		out, err := deploy.Render(deploy.Options{
			Mode: c.String("mode"), Name: c.String("name"), Namespace: c.String("namespace"),
			ValueFiles: c.StringSlice("values"),
			Set:        strings.Join(c.StringSlice("set"), ","), // the flag splits at commas, which Helm's syntax joins with too
		})
		if bytes.Contains(out, []byte("image: "+placeholder+"\n")) {
			fmt.Fprintf(c.App.ErrWriter, "note: nobody publishes %s: build it with compose/scheduler.Dockerfile, and name yours with --set image=\n",
				placeholder)
		}
		return out, err
	}
	return nil, exit.New(exit.Usage, errors.New("nothing to do: this command only prints"), "add --print, or --print-values")
}
