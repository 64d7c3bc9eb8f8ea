package pjrt

import "errors"

func setCallbacks(*clientCreateArgs, KeyValue) error {
	return errors.New("pjrt: clients of several processes are not supported")
}
