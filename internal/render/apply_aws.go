//go:build aws

package render

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Apply starts the instances of a job, as launch.sh --apply does, and prints their ids to out. Credentials are
// those of the AWS CLI. The parameter /trireme/NAME/secret must exist. If a call fails after the first
// instance started, the error has the ids of those that run.
func Apply(ctx context.Context, job Job, out io.Writer) error {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(job.Region))
	if err != nil {
		return fmt.Errorf("render: credentials of AWS: %w", err)
	}
	return apply(ctx, job, out, ec2.NewFromConfig(cfg), 10*time.Minute)
}

func apply(ctx context.Context, job Job, out io.Writer, client *ec2.Client, limit time.Duration) (err error) {
	d, err := describe(job)
	if err != nil {
		return err
	}
	if err := d.checkEC2(); err != nil {
		return err
	}
	data, err := d.userData()
	if err != nil {
		return err
	}
	var ids []string
	defer func() {
		if err != nil && ids != nil {
			err = fmt.Errorf("%w. try: aws --region %s ec2 terminate-instances --instance-ids %s, which run", err, d.Region, strings.Join(ids, " "))
		}
	}()
	start := func(rank int, name, first string) (string, error) {
		r, err := client.RunInstances(ctx, d.input(name, data.of(rank, first)))
		if err == nil && len(r.Instances) == 0 {
			err = errors.New("no instance in the answer")
		}
		if err != nil {
			return "", fmt.Errorf("render: start instance %s: %w", name, err)
		}
		id := aws.ToString(r.Instances[0].InstanceId)
		ids = append(ids, id)
		return id, nil
	}
	running := func(ids ...string) (*ec2.DescribeInstancesOutput, error) {
		r, err := ec2.NewInstanceRunningWaiter(client).WaitForOutput(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, limit)
		if err != nil {
			return nil, fmt.Errorf("render: wait for %s to run: %w", strings.Join(ids, ", "), err)
		}
		return r, nil
	}
	master, err := start(0, d.Name+"-master", "")
	if err != nil {
		return err
	}
	r, err := running(master)
	if err != nil {
		return err
	}
	if len(r.Reservations) == 0 || len(r.Reservations[0].Instances) == 0 || aws.ToString(r.Reservations[0].Instances[0].PrivateIpAddress) == "" {
		return fmt.Errorf("render: instance %s has no private address", master)
	}
	address := aws.ToString(r.Reservations[0].Instances[0].PrivateIpAddress)
	fmt.Fprintf(out, "Master: %s (%s)\n", master, address)
	for rank := 1; rank < d.Hosts; rank++ {
		id, err := start(rank, fmt.Sprintf("%s-worker-%d", d.Name, rank), address)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "Worker %d: %s\n", rank, id)
	}
	if len(ids) > 1 {
		if _, err := running(ids[1:]...); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Ends them all: aws --region %s ec2 terminate-instances --instance-ids %s\n", d.Region, strings.Join(ids, " "))
	return nil
}

// input returns the input of RunInstances for one host.
func (d *description) input(name, data string) *ec2.RunInstancesInput {
	i := d.instance()
	return &ec2.RunInstancesInput{
		ImageId: &i.ImageId, InstanceType: types.InstanceType(i.InstanceType), KeyName: &i.KeyName,
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SecurityGroupIds: i.SecurityGroupIds, SubnetId: &i.SubnetId,
		IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: &i.IamInstanceProfile.Name},
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpTokens: types.HttpTokensStateRequired, HttpEndpoint: types.InstanceMetadataEndpointStateEnabled, HttpPutResponseHopLimit: aws.Int32(1),
		},
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(data))),
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeInstance,
			Tags:         []types.Tag{{Key: aws.String("Name"), Value: &name}, {Key: aws.String("trireme-job"), Value: &d.Name}},
		}},
	}
}
