package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"trireme/fault"
)

// runInstances is the input of EC2's RunInstances, with its names. UserData and tags differ per host.
type runInstances struct {
	ImageId            string
	InstanceType       string
	KeyName            string
	MinCount, MaxCount int
	SecurityGroupIds   []string
	SubnetId           string
	IamInstanceProfile struct{ Name string }
	MetadataOptions    struct {
		HttpTokens, HttpEndpoint string
		HttpPutResponseHopLimit  int
	}
}

func (d *description) instance() runInstances {
	r := runInstances{
		ImageId: d.AMI, InstanceType: d.InstanceType, KeyName: d.KeyName, MinCount: 1, MaxCount: 1,
		SecurityGroupIds: []string{d.SecurityGroup}, SubnetId: d.Subnet,
	}
	r.IamInstanceProfile.Name = d.InstanceProfile
	r.MetadataOptions.HttpTokens, r.MetadataOptions.HttpEndpoint, r.MetadataOptions.HttpPutResponseHopLimit = "required", "enabled", 1
	return r
}

// checkEC2 returns an error unless the settings of EC2 are there.
func (d *description) checkEC2() error {
	var missing []string
	for _, f := range []struct{ flag, value string }{
		{"--aws_region", d.Region}, {"--aws_ami", d.AMI}, {"--aws_key_name", d.KeyName}, {"--aws_subnet", d.Subnet},
		{"--aws_security_group", d.SecurityGroup}, {"--aws_instance_profile", d.InstanceProfile},
	} {
		if f.value == "" {
			missing = append(missing, f.flag)
		}
		if strings.Trim(f.value, plain) != "" {
			return fmt.Errorf("%s is %q, which is no name of AWS", f.flag, f.value)
		}
	}
	if missing != nil {
		return fault.Try(errors.New("--render aws needs settings of EC2"), "%s", strings.Join(missing, " VALUE, ")+" VALUE")
	}
	if strings.Trim(d.InstanceType, plain) != "" {
		return fmt.Errorf("--aws_instance_type is %q, which is no name of AWS", d.InstanceType)
	}
	return nil
}

// renderAWS renders a script that prints its calls of EC2, or does them, the user data of instances, and the
// description of one.
func renderAWS(d *description) ([]File, error) {
	if err := d.checkEC2(); err != nil {
		return nil, err
	}
	script, err := d.file("launch.sh", "aws.sh", 0o755, nil)
	if err != nil {
		return nil, err
	}
	data, err := d.userData()
	if err != nil {
		return nil, err
	}
	instance, err := json.MarshalIndent(d.instance(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return []File{script, data, {Name: "instance.json", Content: append(instance, '\n'), Mode: 0o644}}, nil
}

// The user data of a host has its rank and the address of the first host, which is empty on that host.
const (
	rankMark  = "@RANK@"
	firstMark = "@FIRST@"
)

func (d *description) userData() (File, error) {
	const endpoint = "ENDPOINT"
	args := d.launch(endpoint)
	words := make([]string, 0, len(args)+2)
	for i, a := range args {
		switch {
		case i > 0 && args[i-1] == "--rdzv_endpoint" && a == endpoint:
			words = append(words, fmt.Sprintf(`"$first:%d"`, d.port()))
			if !d.Elastic {
				words = append(words, "--node_rank", rankMark)
			}
		default:
			words = append(words, shell(a))
		}
	}
	return d.file("user-data.sh", "user-data.sh", 0o644, map[string]any{"words": words})
}

// of returns the user data of one host.
func (f File) of(rank int, first string) string {
	return strings.NewReplacer(rankMark, fmt.Sprint(rank), firstMark, first).Replace(string(f.Content))
}
