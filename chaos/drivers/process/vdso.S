# The code that vdso.py puts where the kernel keeps its clock functions; a test assembles it and compares.
# Position-independent, x86-64, System V. The words before it are filled in when a process is shifted.
#
#   as vdso.S -o vdso.o && objcopy -O binary -j .text vdso.o vdso.bin

mark:   .ascii "chaosclk"
stamp:  .quad 0                 # whose shift it is
shift:  .quad 0                 # nanoseconds
place:  .quad 0                 # where to count, in memory that the process may write to; 0: nowhere

clock_gettime:
        mov     $228, %eax
        syscall
        test    %eax, %eax
        jne     1f
        test    %rsi, %rsi
        je      1f
        test    %edi, %edi      # CLOCK_REALTIME
        je      0f
        cmp     $5, %edi        # CLOCK_REALTIME_COARSE
        je      0f
        cmp     $11, %edi       # CLOCK_TAI
        jne     1f
0:      call    count
        mov     $1000000000, %ecx
        mov     (%rsi), %rax
        imul    %rcx, %rax
        add     8(%rsi), %rax
        add     shift(%rip), %rax
        cqto
        idiv    %rcx
        mov     %rax, (%rsi)
        mov     %rdx, 8(%rsi)
        xor     %eax, %eax
1:      ret

        .balign 16
gettimeofday:
        mov     $96, %eax
        syscall
        test    %eax, %eax
        jne     1f
        test    %rdi, %rdi
        je      1f
        call    count
        mov     shift(%rip), %rax
        mov     $1000, %ecx
        cqto
        idiv    %rcx
        mov     %rax, %r8
        mov     $1000000, %ecx
        mov     (%rdi), %rax
        imul    %rcx, %rax
        add     8(%rdi), %rax
        add     %r8, %rax
        cqto
        idiv    %rcx
        mov     %rax, (%rdi)
        mov     %rdx, 8(%rdi)
        xor     %eax, %eax
1:      ret

        .balign 16
time:
        push    %rdi
        sub     $24, %rsp
        xor     %edi, %edi
        mov     %rsp, %rsi
        call    clock_gettime
        mov     (%rsp), %rax
        add     $24, %rsp
        pop     %rdi
        test    %rdi, %rdi
        je      1f
        mov     %rax, (%rdi)
1:      ret

        .balign 16
count:                          # somebody was told another time; clobbers %rax alone
        cmpq    $0, shift(%rip)
        je      1f
        mov     place(%rip), %rax
        test    %rax, %rax
        je      1f
        lock incq (%rax)
1:      ret
