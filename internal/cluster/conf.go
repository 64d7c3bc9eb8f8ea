package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"trireme/fault"
)

// keepAlive are torchelastic's defaults of keep_alive_interval, in seconds, and keep_alive_max_attempt.
var keepAlive = [2]float64{5, 3}

// ParseConf reads torchrun's --rdzv-conf, "key=value,key=value". Times are in seconds. notes are lines about
// keys without effect.
func ParseConf(text string) (c Conf, notes []string, err error) {
	alive, aliveSet := keepAlive, false
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || value == "" {
			return c, nil, fault.Try(fmt.Errorf("--rdzv-conf %q is not KEY=VALUE", pair), "--rdzv-conf join_timeout=600,last_call_timeout=30")
		}
		number := func() (s float64) {
			if s, err = strconv.ParseFloat(value, 64); err != nil || !(s > 0 && s <= 1e8) {
				err = fmt.Errorf("--rdzv-conf %s=%s is not a positive number", key, value)
			}
			return s
		}
		seconds := func() time.Duration { return time.Duration(number() * float64(time.Second)) }
		switch key {
		case "join_timeout":
			c.JoinTimeout = seconds()
		case "last_call_timeout":
			c.LastCall = seconds()
		case "close_timeout":
			c.Close = seconds()
		case "keep_alive_interval":
			alive[0], aliveSet = number(), true
		case "keep_alive_max_attempt":
			alive[1], aliveSet = number(), true
		case "read_timeout":
			c.Return = seconds()
		case "timeout": // of the store's client: the wait for the store is part of joining
			if d := seconds(); c.JoinTimeout == 0 {
				c.JoinTimeout = d
			}
		case "is_host":
			var host bool
			if host, err = strconv.ParseBool(strings.ToLower(value)); err != nil {
				err = fmt.Errorf("--rdzv-conf is_host=%s is not true or false", value)
			}
			c.Host = &host
		default:
			why, known := withoutEffect[key]
			if !known {
				return c, nil, unknownKey(key)
			}
			notes = append(notes, fmt.Sprintf("--rdzv-conf %s has no effect: %s", key, why))
		}
		if err != nil {
			return c, nil, err
		}
	}
	if aliveSet {
		c.Lease = time.Duration(alive[0] * alive[1] * float64(time.Second))
	}
	return c, notes, nil
}

var confKeys = []string{"join_timeout", "last_call_timeout", "close_timeout", "keep_alive_interval", "keep_alive_max_attempt", "read_timeout", "timeout", "is_host"}

// withoutEffect are keys of torchrun's backends that have no counterpart here.
var withoutEffect = map[string]string{
	"heartbeat_timeout": "a lost host is noticed by keep_alive_interval and keep_alive_max_attempt",
	"store_type":        "the launchers' store is always on the network",
	"use_libuv":         "the launchers' store is not PyTorch's",
	"rank":              "--node-rank has the host's position",
	"protocol":          "connections are sealed with the job's secret",
	"cert":              "connections are sealed with the job's secret",
	"key":               "connections are sealed with the job's secret",
	"cacert":            "connections are sealed with the job's secret",
}

func unknownKey(key string) error {
	err := fmt.Errorf("--rdzv-conf: unknown key %q", key)
	letters := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", "s", "").Replace(strings.ToLower(s))
	}
	if i := slices.IndexFunc(confKeys, func(k string) bool { return letters(k) == letters(key) || letters(k) == letters(key)+"timeout" }); i >= 0 {
		return fault.Try(err, "%s", confKeys[i])
	}
	return fault.Try(err, "one of %s", strings.Join(confKeys, ", "))
}
