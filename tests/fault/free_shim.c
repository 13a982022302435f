/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds writes to freed memory, by any thread of the program or of a driver. Loaded with LD_PRELOAD, it fills
 * memory that the program frees with a pattern, keeps it, and checks all of it when the program ends. If
 * memory was written after it was freed, the program ends with code 97 and a line with the size of the block.
 * It must not use anything of the engine.
 *
 *   CLT_FREE_SHIM_LOG = FILE   receives the number of blocks that were checked */
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
#define PATTERN 0xDB
#define MOST 200000 /* kept blocks; later ones are freed */
#define GRACE_US                                                                                             \
    1000000 /* what is still under way at the end of the program gets so long to come too late               \
             */

static uintptr_t text_from, text_to; /* the program's own code */
static unsigned char *kept[MOST];
static size_t sizes[MOST];
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void __libc_free(void *memory);

static int find_text(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            text_from = info->dlpi_addr + p->p_vaddr;
            text_to = text_from + p->p_memsz;
        }
    }
    return 1; /* the first object is the program */
}

__attribute__((constructor)) static void set_up(void)
{
    dl_iterate_phdr(find_text, NULL);
}

VISIBLE void free(void *memory)
{
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    bool keep = memory != NULL && caller >= text_from && caller < text_to;
    if (keep) {
        size_t size = malloc_usable_size(memory);
        memset(memory, PATTERN, size);
        pthread_mutex_lock(&lock);
        keep = count < MOST;
        if (keep) {
            sizes[count] = size;
            kept[count++] = memory;
        }
        pthread_mutex_unlock(&lock);
    }
    if (!keep)
        __libc_free(memory);
}

static void write_count(void)
{
    const char *path = getenv("CLT_FREE_SHIM_LOG");
    char line[32];
    int n = snprintf(line, sizeof line, "%zu\n", count);
    int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)n) != n)
        _exit(99);
    close(fd);
}

__attribute__((destructor)) static void look(void)
{
    usleep(GRACE_US);
    pthread_mutex_lock(&lock);
    write_count();
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            if (kept[i][at] != PATTERN) {
                fprintf(stderr,
                        "free_shim: a block of %zu bytes was written at byte %zu after it was freed\n",
                        sizes[i], at);
                _exit(97);
            }
    pthread_mutex_unlock(&lock);
}
