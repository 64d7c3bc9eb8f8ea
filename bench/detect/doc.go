// Command detect measures how soon every rank of a job knows that another was killed or stopped, or that its host's
// link was cut, and whether a loaded machine causes false alarms. PyTorch's gloo is measured beside it.
//
//	go run ./bench/detect -repeat 20 killed stopped cut
//	go run ./bench/detect -repeat 20 -load 2 killed stopped cut
//	go run ./bench/detect -load 2 -for 5m calm calm-hosts
//	go run ./bench/detect -ranks 64 -repeat 5 start
//	go run ./bench/detect -python /path/to/python -repeat 5 gloo-killed gloo-stopped
//
// Ranks are processes that run all-reduces without a pause: over shared memory for killed and stopped, over TCP
// between two network namespaces for cut and calm-hosts, which need root. -load starts that number of busy processes per processor.
// start is the time from the first process to the first all-reduce of all ranks. gloo-stopped waits up to 45 s. Each line has the case, the number of ranks, and the times in milliseconds from the
// signal to the last rank that knows: the median, the longest, and all.
package main
