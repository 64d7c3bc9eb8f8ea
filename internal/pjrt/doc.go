// Package pjrt calls PJRT plug-ins, the shared libraries through which XLA compiles and runs programs
// on CPUs, GPUs and TPUs. It needs no cgo: package dl opens the library and calls its functions.
//
// Load opens a plug-in. Plugin.NewClient starts its devices, Client.Compile compiles a module of
// StableHLO text, Device.Upload and Buffer.Download move data, and Executable.Execute runs one replica
// on one device:
//
//	plugin, err := pjrt.Load("/path/plugin.so")
//	client, err := plugin.NewClient(nil, nil)
//	program, err := client.Compile(text, pjrt.CompileOptions{})
//	in, err := client.Devices()[0].Upload(pjrt.F32, []int{2}, data)
//	out, done, err := program.Execute(client.Devices()[0], []*pjrt.Buffer{in}, nil)
//	err = out[0].Download(result)
//
// Plugin.NewTopology describes devices that this machine lacks; Topology.Compile compiles for them.
//
// Several goroutines may use everything at once. Clients, executables, buffers and events belong to
// the plug-in's memory, which Go does not collect: Close releases them. Close may be called twice, and
// while other goroutines use the value: the last use releases it.
//
// A plug-in checks little. Some wrong arguments end the process, others give wrong results: this
// package checks types of options, numbers of replicas, and the arguments of an execution itself.
//
// Plug-ins write their own log to stderr. Load sets the environment variable TF_CPP_MIN_LOG_LEVEL to 2
// (errors only) unless it is set; 0 shows everything.
package pjrt

//go:generate go run ./generate
