package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests decodes the manifests of launch --render kubernetes into Kubernetes's own types, strictly:
// unknown fields and wrong types are errors.
func TestManifests(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "internal/render/testdata/kubernetes*/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]any{"Job": &batchv1.Job{}, "Service": &corev1.Service{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaim{}}
		for _, document := range bytes.Split(content, []byte("\n---\n")) {
			var head struct{ Kind string }
			if err := yaml.Unmarshal(document, &head); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			to, ok := kinds[head.Kind]
			if !ok {
				t.Errorf("%s: a second or unknown %s", path, head.Kind)
				continue
			}
			delete(kinds, head.Kind)
			if err := yaml.UnmarshalStrict(document, to); err != nil {
				t.Errorf("%s: %s: %v", path, head.Kind, err)
			}
			if job, ok := to.(*batchv1.Job); ok {
				checkJob(t, path, job)
			}
		}
		if len(kinds) != 0 {
			t.Errorf("%s lacks %v", path, kinds)
		}
	}
}

// checkJob checks rules of the API that types do not express.
func checkJob(t *testing.T, path string, job *batchv1.Job) {
	t.Helper()
	pod := job.Spec.Template.Spec
	if job.Spec.CompletionMode == nil || *job.Spec.CompletionMode != batchv1.IndexedCompletion || *job.Spec.Completions != *job.Spec.Parallelism {
		t.Errorf("%s: the Job is not indexed, or its hosts do not run together", path)
	}
	if pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%s: restartPolicy %q, which podFailurePolicy does not allow", path, pod.RestartPolicy)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: no volume %s", path, m.Name)
			}
		}
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || pod.SecurityContext.RunAsUser == nil || *pod.SecurityContext.RunAsUser == 0 {
			t.Errorf("%s: the container may be root, or change its image", path)
		}
	}
}

// TestRenderedDockerfile checks the Dockerfile of launch --render compose as that of the repository.
func TestRenderedDockerfile(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "internal/render/testdata/compose/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range lint(t, content) {
		t.Error(problem)
	}
}
