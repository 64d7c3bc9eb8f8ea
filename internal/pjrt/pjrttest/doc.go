// Package pjrttest finds the plug-ins that tests need, and installs them once per user.
//
// CPU's plug-in is small (63 MB) and every test may use it. CUDA's compiles for GPUs that the machine
// lacks; it is large (260 MB), so tests skip unless PJRTTEST_CUDA is set. Both are Linux wheels, which
// pip downloads from the index that it is configured for; a wheel with another SHA-256 is refused.
//
// Environment variables:
//
//	PJRTTEST_CPU        file of the CPU plug-in; default: the user's cache directory
//	PJRTTEST_CUDA       1: tests use the CUDA plug-in from the user's cache directory
//	PJRTTEST_NO_SKIP    1: a test fails if a plug-in cannot be installed, instead of skipping; platforms
//	                    without a wheel skip
package pjrttest
