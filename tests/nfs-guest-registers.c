/* Lets the guest's kernel run where the processor has more registers than it knows (AMX).
 *
 * User Mode Linux before 6.13 keeps its processes' extended registers in a room of fixed size and hands back what fits in
 * it; this machine's kernel refuses anything but the whole area (EFAULT), and the guest dies at its first process. Loaded
 * into linux.uml by LD_PRELOAD, this ptrace(2) hands back the rest as it was. Nothing in the guest uses those registers.
 */

struct iovec {
    char *base;
    unsigned long size;
};

enum { GET_REGISTERS = 0x4204, SET_REGISTERS = 0x4205, EXTENDED = 0x202 };

extern void *dlsym(void *library, const char *name);

long ptrace(int request, int pid, void *address, void *data)
{
    static long (*next)(int, int, void *, void *);
    /* Not on the stack, which is small in a kernel; only one thread of the guest's kernel calls this. */
    static char area[64 * 1024];

    if (!next)
        *(void **)&next = dlsym((void *)-1 /* RTLD_NEXT */, "ptrace");
    if (request == SET_REGISTERS && (long)address == EXTENDED) {
        struct iovec given = *(struct iovec *)data, whole = {area, sizeof area};

        if (next(GET_REGISTERS, pid, address, &whole) == 0 && given.size < whole.size) {
            for (unsigned long at = 0; at < given.size; at++)
                area[at] = given.base[at];
            return next(request, pid, address, &whole);
        }
    }
    return next(request, pid, address, data);
}
