package compare

import (
	"fmt"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// The pods that owners lose in checkOwners: of a rollout, of a smaller Deployment, of a StatefulSet's rollout and of a Job.
const ownersLose = 40 + 30 + 2 + 2

// checkOwners records how owners of all kinds make, replace and take away pods. A replay has as many pods of each at a time.
func (c *chain) checkOwners(kubeconfig string) {
	c.Helper()
	c.dir = filepath.Join(c.TempDir(), "owners.record")
	stop := c.follow(kubeconfig)
	c.until("the recorder has the nodes", func() bool { return len(c.nodes()) == 6 })
	c.makeOwners()
	c.done("40 pods of web, and 2 of db", 40, 2)
	for _, patch := range []struct{ what, path, text string }{
		{"a rollout of web", "web", `{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`},
		{"fewer of web", "web", `{"spec":{"replicas":10}}`}, {"a rollout of db", "db", `{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`},
	} {
		var err error
		web := 10
		if patch.path == "db" {
			_, err = c.Client.AppsV1().StatefulSets("default").Patch(c.ctx, "db", types.StrategicMergePatchType, []byte(patch.text), metav1.PatchOptions{})
		} else {
			var d *appsv1.Deployment
			d, err = c.Client.AppsV1().Deployments("default").Patch(c.ctx, "web", types.StrategicMergePatchType, []byte(patch.text), metav1.PatchOptions{})
			web = int(*d.Spec.Replicas)
		}
		if err != nil {
			c.Fatal(err)
		}
		c.done(patch.what, web, 2)
	}
	c.until("the record has what ended", func() bool { ended, _ := c.recorded(); return ended == ownersLose })
	stop()
	c.checkRecordedOwners()
	for _, x := range c.compare().Rows[1:] {
		o := x.Owners
		if o == nil || o.PodHours == 0 || o.Off > 0.01 || o.Abandoned+o.FailedJobs+o.Unmade > 0 {
			c.Errorf("%s: %+v", x.Name, o)
		} else {
			c.Logf("%s: %.1f pod hours, off by %v", x.Name, o.PodHours, o.Off)
		}
	}
}

// checkRecordedOwners checks that the record has the owners, and that nothing contradicts itself.
func (c *chain) checkRecordedOwners() {
	c.Helper()
	r, err := record.Open(c.dir)
	if err != nil {
		c.Fatal(err)
	}
	s, err := replay.Read(r, replay.Window{})
	if err != nil {
		c.Fatal(err)
	}
	owners, notes := record.Owners(s.Pods, s.Objects)
	got := map[string]int{}
	for _, o := range owners {
		got[o.Kind+"/"+o.Name] = len(o.Pods)
	}
	for name, pods := range map[string]int{"Deployment/web": 80, "StatefulSet/db": 4, "DaemonSet/agent": 6, "CronJob/night": 2, "Job/night-1": 2} {
		if got[name] != pods {
			c.Errorf("%s has %d pods in the record, want %d", name, got[name], pods)
		}
	}
	if len(notes) > 0 {
		c.Errorf("%s", strings.Join(notes, "\n"))
	}
}

// template returns the pods of an owner.
func template(app, tier string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	p := chainPod("", tier, "10m", func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": app}
		p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("10Mi")
	})
	if tier == "" {
		p.Spec.NodeSelector, p.Spec.Tolerations = nil, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

// makeOwners creates an owner of each kind.
func (c *chain) makeOwners() {
	c.Helper()
	apps, jobs := c.Client.AppsV1(), c.Client.BatchV1()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
	must := func(err error) {
		c.Helper()
		if err != nil {
			c.Fatal(err)
		}
	}
	all := metav1.CreateOptions{}
	s, pod := template("owned-web", "web")
	_, err := apps.Deployments("default").Create(c.ctx, &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(40)), Selector: s, Template: pod}}, all)
	must(err)
	s, pod = template("db", "web")
	_, err = apps.StatefulSets("default").Create(c.ctx, &appsv1.StatefulSet{ObjectMeta: named("db"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Selector: s, Template: pod}}, all)
	must(err)
	s, pod = template("agent", "")
	_, err = apps.DaemonSets("default").Create(c.ctx, &appsv1.DaemonSet{ObjectMeta: named("agent"), Spec: appsv1.DaemonSetSpec{Selector: s, Template: pod}}, all)
	must(err)
	_, pod = template("night", "web")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec := batchv1.JobSpec{Parallelism: new(int32(1)), Completions: new(int32(2)), Template: pod}
	night, err := jobs.CronJobs("default").Create(c.ctx, &batchv1.CronJob{ObjectMeta: named("night"), Spec: batchv1.CronJobSpec{
		Schedule: "@yearly", Suspend: new(true), JobTemplate: batchv1.JobTemplateSpec{Spec: spec},
	}}, all)
	must(err)
	job := &batchv1.Job{ObjectMeta: named("night-1"), Spec: spec} // as kubectl create job --from=cronjob/night
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(night, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	_, err = jobs.Jobs("default").Create(c.ctx, job, all)
	must(err)
}

// done waits until the owners have all their pods, of their last templates.
func (c *chain) done(what string, web, db int) {
	c.Helper()
	c.until(what, func() bool {
		d, err1 := c.Client.AppsV1().Deployments("default").Get(c.ctx, "web", metav1.GetOptions{})
		s, err2 := c.Client.AppsV1().StatefulSets("default").Get(c.ctx, "db", metav1.GetOptions{})
		j, err3 := c.Client.BatchV1().Jobs("default").Get(c.ctx, "night-1", metav1.GetOptions{})
		if err1 != nil || err2 != nil || err3 != nil {
			return false
		}
		said := fmt.Sprint(d.Generation-d.Status.ObservedGeneration, s.Generation-s.Status.ObservedGeneration, d.Status.Replicas,
			d.Status.UpdatedReplicas, d.Status.AvailableReplicas, s.Status.AvailableReplicas, s.Status.UpdatedReplicas, j.Status.Succeeded)
		return said == fmt.Sprint(0, 0, web, web, web, db, db, 2)
	})
}
