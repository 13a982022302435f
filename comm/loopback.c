/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that `cltrain launch` loads into mpirun, by LD_PRELOAD, for a job on one host. Open MPI binds
 * the port for its daemons to every address of the host and has no setting against it; here such a port is
 * bound to the loopback address instead. The ranks do not get the library: it removes itself from LD_PRELOAD
 * when it is loaded into the real mpirun, not earlier, since `mpirun` may be a script that starts the real
 * one. */
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/comm.h"

/* bind() of the C library, whose declaration has another type for `address` in each C library. */
__attribute__((visibility("default"))) int loopback_bind(int fd, const struct sockaddr *address,
                                                         socklen_t length) __asm__("bind");

static int bind_to(int fd, const void *address, socklen_t length)
{
    return (int)syscall(SYS_bind, fd, address, length);
}

int loopback_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (address && length == sizeof four && address->sa_family == AF_INET) {
        memcpy(&four, address, sizeof four);
        if (four.sin_addr.s_addr == htonl(INADDR_ANY))
            four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return bind_to(fd, &four, sizeof four);
    }
    if (address && length == sizeof six && address->sa_family == AF_INET6) {
        memcpy(&six, address, sizeof six);
        if (memcmp(&six.sin6_addr, &in6addr_any, sizeof six.sin6_addr) == 0)
            six.sin6_addr = in6addr_loopback;
        return bind_to(fd, &six, sizeof six);
    }
    return bind_to(fd, address, length);
}

/* True in Open MPI's launcher, whose libraries export one of these functions. */
static bool in_launcher(void)
{
    return dlsym(RTLD_DEFAULT, "orte_init") || dlsym(RTLD_DEFAULT, "prte_init");
}

/* The first word of LD_PRELOAD is this library; the libraries that the user has set come after it. */
__attribute__((constructor)) static void leave_environment(void)
{
    const char *words = getenv("LD_PRELOAD");
    if (!words || !in_launcher())
        return;
    size_t first = strcspn(words, ":");
    const size_t name = strlen(COMM_LOOPBACK_FILE);
    if (first < name || strncmp(words + first - name, COMM_LOOPBACK_FILE, name) != 0)
        return;
    if (words[first] == ':')
        (void)setenv("LD_PRELOAD", words + first + 1, 1);
    else
        (void)unsetenv("LD_PRELOAD");
}
