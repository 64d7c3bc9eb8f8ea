//go:build aws

package render

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// fakeEC2 answers EC2's query API. Call number fail, from 1, is refused.
func fakeEC2(t *testing.T, fail int) (client *ec2.Client, calls func() []url.Values) {
	t.Helper()
	var mu sync.Mutex
	var all []url.Values
	started := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		r.ParseForm()
		all = append(all, r.PostForm)
		w.Header().Set("Content-Type", "text/xml")
		if len(all) == fail {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `<Response><Errors><Error><Code>InstanceLimitExceeded</Code><Message>too many</Message></Error></Errors><RequestID>1</RequestID></Response>`)
			return
		}
		switch r.PostForm.Get("Action") {
		case "RunInstances":
			fmt.Fprintf(w, `<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instancesSet><item><instanceId>i-%d</instanceId></item></instancesSet></RunInstancesResponse>`, started)
			started++
		case "DescribeInstances":
			fmt.Fprint(w, `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><instancesSet>`)
			for i := 1; r.PostForm.Get(fmt.Sprintf("InstanceId.%d", i)) != ""; i++ {
				fmt.Fprintf(w, `<item><instanceId>%s</instanceId><instanceState><code>16</code><name>running</name></instanceState><privateIpAddress>10.0.0.4</privateIpAddress></item>`, r.PostForm.Get(fmt.Sprintf("InstanceId.%d", i)))
			}
			fmt.Fprint(w, `</instancesSet></item></reservationSet></DescribeInstancesResponse>`)
		}
	}))
	t.Cleanup(s.Close)
	client = ec2.New(ec2.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.URL), RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	})
	return client, func() []url.Values { mu.Lock(); defer mu.Unlock(); return slices.Clone(all) }
}

func TestApply(t *testing.T) {
	client, calls := fakeEC2(t, 0)
	var out strings.Builder
	if err := apply(t.Context(), jobs["aws"].job, &out, client, time.Minute); err != nil {
		t.Fatal(err)
	}
	want := "Master: i-0 (10.0.0.4)\nWorker 1: i-1\nWorker 2: i-2\nEnds them all: aws --region eu-central-1 ec2 terminate-instances --instance-ids i-0 i-1 i-2\n"
	if out.String() != want {
		t.Errorf("prints\n%s\nwant\n%s", out.String(), want)
	}
	var actions []string
	for _, c := range calls() {
		actions = append(actions, c.Get("Action"))
		if c.Get("Action") != "RunInstances" {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(c.Get("UserData"))
		if err != nil || !strings.HasPrefix(string(data), "#!/bin/bash\n") || strings.Contains(string(data), "@") && strings.Contains(string(data), rankMark) {
			t.Errorf("user data %q, %v", data, err)
		}
		if c.Get("ImageId") != testEC2.AMI || c.Get("InstanceType") != "p4d.24xlarge" || c.Get("MetadataOptions.HttpTokens") != "required" || c.Get("TagSpecification.1.Tag.2.Value") != "llama" || c.Get("ClientToken") == "" {
			t.Errorf("call %v", c)
		}
	}
	if want := []string{"RunInstances", "DescribeInstances", "RunInstances", "RunInstances", "DescribeInstances"}; !slices.Equal(actions, want) {
		t.Errorf("calls %q, want %q", actions, want)
	}
}

// TestApplyFails refuses a later instance: the error has the ids of those that run.
func TestApplyFails(t *testing.T) {
	client, _ := fakeEC2(t, 4)
	err := apply(t.Context(), jobs["aws"].job, &strings.Builder{}, client, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "llama-worker-2") || !strings.Contains(err.Error(), "--instance-ids i-0 i-1") {
		t.Error(err)
	}
}

// TestInstance decodes instance.json into the SDK's input of RunInstances, strictly.
func TestInstance(t *testing.T) {
	_, files := rendered(t, "aws")
	d := json.NewDecoder(strings.NewReader(string(files[2].Content)))
	d.DisallowUnknownFields()
	var input ec2.RunInstancesInput
	if err := d.Decode(&input); err != nil {
		t.Fatal(err)
	}
	if aws.ToString(input.ImageId) != testEC2.AMI || aws.ToInt32(input.MinCount) != 1 {
		t.Errorf("%+v", input)
	}
}
