// Package plugin finds PJRT plug-ins and the libraries that they load, and prepares the process for one:
//
//	found, err := plugin.Find(plugin.Machine(), plugin.CUDA, "")
//	err = found.Prepare(plugin.GPUs{Hopper: true})
//	p, err := pjrt.Load(found.File)
//
// Plug-ins and NVIDIA's libraries are usually installed by pip, so Find walks the directories of Python
// packages. It executes no Python.
package plugin
