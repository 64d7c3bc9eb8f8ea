// Package nvml reads the state of NVIDIA GPUs through the driver's library libnvidia-ml, which it opens
// at run time. It changes nothing on a GPU.
//
//	lib, err := nvml.Open("")   // ErrNoDriver without an NVIDIA driver
//	defer lib.Close()
//	cards, err := lib.Cards()
//	reading, err := lib.Read(cards[0])
//
// Cards are ordered by PCI bus ID, as nvidia-smi prints them. CUDA numbers them so if the environment
// variable CUDA_DEVICE_ORDER is PCI_BUS_ID. Visible selects those of CUDA_VISIBLE_DEVICES.
package nvml
