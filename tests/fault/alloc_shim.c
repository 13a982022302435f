/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one allocation of a program fail. Loaded with LD_PRELOAD, it counts the calls of malloc, calloc,
 * realloc, strdup and posix_memalign that come from the program itself, or else from one library (other
 * libraries handle their errors themselves), and lets the call with a given number return NULL. It must not
 * use anything of the engine.
 *
 *   CLT_ALLOC_SHIM = N      the N-th such call fails; 0 or unset: none
 *   CLT_ALLOC_SHIM_LIBRARY  a part of a library's file name, such as libjpeg: its calls are counted instead
 *   CLT_ALLOC_SHIM_LOG      a file that receives the number of calls when the program ends; if its child
 *                           processes write there, too, the largest number */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static atomic_long calls;
static long wanted = -1;
static uintptr_t text_from, text_to; /* code range whose calls count */

static int find_text(struct dl_phdr_info *info, size_t size, void *context)
{
    const char *library = context;
    (void)size;
    if (library != NULL && strstr(info->dlpi_name, library) == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            text_from = info->dlpi_addr + p->p_vaddr;
            text_to = text_from + p->p_memsz;
        }
    }
    return 1; /* without a library: the first object, which is the program */
}

__attribute__((constructor)) static void set_up(void)
{
    const char *text = getenv("CLT_ALLOC_SHIM");
    dl_iterate_phdr(find_text, getenv("CLT_ALLOC_SHIM_LIBRARY"));
    wanted = text != NULL ? atol(text) : 0;
}

__attribute__((destructor)) static void write_log(void)
{
    const char *path = getenv("CLT_ALLOC_SHIM_LOG");
    char line[32];
    int fd = path != NULL ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (fd < 0)
        return;
    ssize_t had = read(fd, line, sizeof line - 1);
    line[had > 0 ? had : 0] = '\0';
    long before = atol(line);
    int n = snprintf(line, sizeof line, "%ld\n", atomic_load(&calls));
    if (atomic_load(&calls) > before && pwrite(fd, line, (size_t)n, 0) != n)
        _exit(99);
    close(fd);
}

static bool fails(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (wanted < 0 || at < text_from || at >= text_to)
        return false;
    return atomic_fetch_add(&calls, 1) + 1 == wanted;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void *none(void)
{
    errno = ENOMEM;
    return NULL;
}

VISIBLE void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? none() : __libc_malloc(size);
}

VISIBLE void *calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? none() : __libc_calloc(count, size);
}

VISIBLE void *realloc(void *old, size_t size)
{
    return fails(__builtin_return_address(0)) ? none() : __libc_realloc(old, size);
}

VISIBLE int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *data = fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
    *out = data;
    return data != NULL ? 0 : ENOMEM;
}

VISIBLE char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = fails(__builtin_return_address(0)) ? none() : __libc_malloc(size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}
