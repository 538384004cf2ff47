"""hetir beside C, NumPy, numba, torch and OpenCL on the kernels of the library."""
