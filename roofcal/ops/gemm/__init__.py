"""C[M,N] = A[M,K] @ B[N,K].T in bf16, fp8 and, on CPUs, fp32 and int8."""
