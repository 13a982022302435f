/* SPDX-License-Identifier: Apache-2.0
 *
 * Read-only mappings of files, and what happens when a mapped file becomes shorter. An access beyond the
 * new end, or to a part that the disk cannot read, raises SIGBUS. The handler replaces the missing part
 * by zeros and notes the loss, and clt_map_check turns the note into an error with the file's name. For a
 * remote file a local copy is mapped, which is downloaded as a whole or in the parts that the reader asks
 * for. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"

/* The entry of an open mapping. Entries are never freed but reused, so that the handler can walk the list at
 * any time. */
struct clt_mapped {
    struct clt_mapped *next, *next_free;
    atomic_uint changes;    /* odd while the entry is free; each opening and closing adds 1 */
    atomic_uintptr_t begin; /* 0: the entry is free */
    atomic_size_t size;     /* written while the entry is free */
    char *path;
    clt_remote_file *remote; /* a remote file that is mapped in parts */
    int fd;                  /* keeps the copy of a remote file that is mapped as a whole; else -1 */
    clt_error failure;       /* why bytes of a remote file could not be fetched, if `lost` */
    dev_t device;
    ino_t number;
    clt_status code;
    atomic_bool used; /* bytes were read since the file was last checked */
    atomic_bool lost; /* a part of the file is gone or cannot be read */
};

static _Atomic(struct clt_mapped *) entries;
static struct clt_mapped *free_entries;                  /* linked by next_free */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while entries change or are read */
static struct sigaction before;                          /* the action of SIGBUS before ours */
static uintptr_t page;
static __thread int passing_on; /* our handler has called the previous one, which is running */

/* Called by the handler, while other threads open and close mappings. False: the address belongs to no
 * mapping. The mapping that contains the address stays open, because its reader waits for the handler. Any
 * other entry may change while it is read, so that `begin` and `size` are of different files; `changes`
 * shows this. */
static bool fill_with_zeros(uintptr_t address)
{
    for (struct clt_mapped *m = atomic_load(&entries); m; m = m->next) {
        unsigned changes = atomic_load(&m->changes);
        uintptr_t begin = atomic_load(&m->begin), at = address & ~(page - 1);
        uintptr_t end = (begin + atomic_load(&m->size) + page - 1) & ~(page - 1);
        if (begin == 0 || address < begin || address >= end || changes % 2 ||
            atomic_load(&m->changes) != changes)
            continue;
        /* set before the zeros are mapped, since other readers of the file then get zeros without a
         * signal */
        atomic_store(&m->lost, true);
        return mmap((void *)at, end - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
               MAP_FAILED;
    }
    return false;
}

/* Passes a signal that no mapping caused to the previous handler, or lets it end the process if there was
 * none. `passing_on` detects a handler that passes the signal back to ours. */
static void pass_on(int number, siginfo_t *info, void *context, bool sent)
{
    bool is_function =
        (before.sa_flags & SA_SIGINFO) || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN);
    if (!is_function || passing_on) {
        (void)signal(number, SIG_DFL);
        if (sent) /* otherwise returning repeats the access, which raises the signal again */
            (void)kill(getpid(), number);
        return;
    }
    passing_on++;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
    passing_on--;
}

/* A compiler inside a driver may install its own handler for a while, which passes the signal on with
 * raise() and so without the address. Then this handler only returns: the access is repeated and raises the
 * signal again, with its address. */
static void on_sigbus(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    bool sent = info->si_code <= 0, raised = sent && info->si_pid == getpid() && !passing_on;
    if (!raised && (sent || !fill_with_zeros((uintptr_t)info->si_addr)))
        pass_on(number, info, context, sent);
    errno = kept;
}

/* Called with the lock held, at every new mapping, because other code may have installed its own handler
 * meanwhile. */
static void install_handler(void)
{
    struct sigaction action, now;
    long size = sysconf(_SC_PAGESIZE);
    page = size > 0 ? (uintptr_t)size : 4096;
    if (sigaction(SIGBUS, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigbus))
        return;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    before = now;
    (void)sigaction(SIGBUS, &action, NULL);
}

/* Takes a free entry and fills in the file. */
static clt_status add_entry(const char *path, const struct stat *info, clt_status code, clt_mapping *mapping)
{
    char *copy = NULL;
    struct clt_mapped *m = NULL;
    clt_status status = clt_alloc(&copy, strlen(path) + 1, 1, "the path of a mapped file");
    if (status == CLT_OK)
        memcpy(copy, path, strlen(path));
    pthread_mutex_lock(&lock);
    install_handler();
    if (status == CLT_OK && free_entries) {
        m = free_entries;
        free_entries = m->next_free;
    } else if (status == CLT_OK) {
        status = clt_alloc(&m, 1, sizeof *m, "a mapped file");
        if (status == CLT_OK) {
            atomic_store(&m->changes, 1);
            m->next = atomic_load(&entries);
            atomic_store(&entries, m);
        }
    }
    if (status == CLT_OK) {
        atomic_store(&m->size, mapping->size);
        m->path = copy;
        m->remote = NULL;
        m->fd = -1;
        m->failure.status = CLT_OK;
        m->device = info->st_dev;
        m->number = info->st_ino;
        m->code = code;
        atomic_store(&m->used, false);
        atomic_store(&m->lost, false);
        atomic_store(&m->begin, (uintptr_t)mapping->data);
        atomic_fetch_add(&m->changes, 1);
        mapping->file = m;
    }
    pthread_mutex_unlock(&lock);
    if (status != CLT_OK)
        free(copy);
    return status;
}

static clt_status map(int fd, const char *path, const struct stat *info, clt_status code, clt_mapping *out)
{
    static const uint8_t nothing[1];
    out->data = nothing;
    if (info->st_size == 0)
        return CLT_OK;
    /* a copy of a remote file is filled while it is mapped */
    int kind = clt_is_remote(path) ? MAP_SHARED : MAP_PRIVATE;
    void *data = mmap(NULL, (size_t)info->st_size, PROT_READ, kind, fd, 0);
    if (data == MAP_FAILED) {
        out->data = NULL;
        return clt_fail_errno(code, errno, "mapping '%s' (%lld bytes)", path, (long long)info->st_size);
    }
    out->data = data;
    out->size = (size_t)info->st_size;
    clt_status status = add_entry(path, info, code, out);
    if (status != CLT_OK)
        clt_map_close(out);
    return status;
}

clt_status clt_map_open(const char *path, clt_status code, clt_mapping *out)
{
    int fd;
    struct stat info;
    *out = (clt_mapping){0};
    /* checked before open(), which would block on a pipe until it has a writer */
    if (clt_file_stat(path, &info) && !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
        CLT_FAIL(code, "mapping '%s': only a regular file can be mapped; check the path", path);
    CLT_TRY(clt_open_read(path, code, &fd, &info));
    clt_status status = CLT_OK;
    if (!S_ISREG(info.st_mode))
        status = clt_fail(code, __FILE__, __LINE__,
                          "mapping '%s': only a regular file can be mapped; check the path", path);
    else
        status = map(fd, path, &info, code, out);
    if (clt_is_remote(path) && out->file)
        out->file->fd = fd;
    else
        close(fd);
    return status;
}

clt_status clt_map_open_parts(const char *path, clt_status code, clt_mapping *out)
{
    clt_remote_file *file = NULL;
    struct stat info = {.st_mode = S_IFREG};
    uint64_t size = 0;
    int fd = -1;
    if (!clt_is_remote(path))
        return clt_map_open(path, code, out);
    *out = (clt_mapping){0};
    CLT_TRY(clt_remote_files_check(path));
    CLT_TRY(clt_remote_files_used()->hold(path, code, &file, &fd, &size));
    info.st_size = (off_t)size;
    clt_status status = map(fd, path, &info, code, out);
    if (out->file)
        out->file->remote = file;
    else
        clt_remote_files_used()->release(file);
    return status;
}

/* --- bytes of remote files --- */

/* A wait of this thread was given up. That is no failure of the file, but the thread has read zeros, so its
 * next check fails. */
static __thread bool gave_up;

static void note_failure(struct clt_mapped *m, clt_status status)
{
    CLT_LOCKED(&lock);
    gave_up = gave_up || status == CLT_EINTERRUPTED;
    if (status == CLT_EINTERRUPTED || m->failure.status != CLT_OK) {
        clt_error_clear();
        return;
    }
    clt_error_take(status, &m->failure);
    atomic_store(&m->lost, true);
}

void clt_map_need(const clt_mapping *mapping, uint64_t from, uint64_t size)
{
    struct clt_mapped *m = mapping->file;
    if (!m || !m->remote || atomic_load(&m->lost)) /* a failed file is not tried again for every sample */
        return;
    clt_status status = clt_remote_files_used()->need(m->remote, from, size);
    if (status != CLT_OK)
        note_failure(m, status);
}

void clt_map_keep(const clt_mapping *mapping, uint64_t from, uint64_t size)
{
    struct clt_mapped *m = mapping->file;
    if (!m || !m->remote)
        return;
    clt_status status = clt_remote_files_used()->keep(m->remote, from, size);
    if (status != CLT_OK)
        note_failure(m, status);
}

void clt_map_want(const clt_mapping *mapping, uint64_t from, uint64_t size)
{
    if (mapping->file && mapping->file->remote)
        clt_remote_files_used()->want(mapping->file->remote, from, size);
}

void clt_map_unpin(void)
{
    if (clt_remote_files_used())
        clt_remote_files_used()->done();
}

/* --- closing and checking --- */

void clt_map_close(clt_mapping *mapping)
{
    clt_remote_file *file = NULL;
    CLT_CLOSED int fd = -1;
    if (!mapping)
        return;
    if (mapping->file) {
        pthread_mutex_lock(&lock);
        file = mapping->file->remote;
        fd = mapping->file->fd;
        atomic_fetch_add(&mapping->file->changes, 1);
        atomic_store(&mapping->file->begin, 0);
        free(mapping->file->path);
        mapping->file->path = NULL;
        mapping->file->next_free = free_entries;
        free_entries = mapping->file;
        pthread_mutex_unlock(&lock);
    }
    if (mapping->size > 0)
        (void)munmap((void *)(uintptr_t)mapping->data, mapping->size);
    if (file)
        clt_remote_files_used()->release(file);
    *mapping = (clt_mapping){0};
}

void clt_map_used(const clt_mapping *mapping)
{
    atomic_thread_fence(memory_order_acquire); /* orders the caller's reads before the load of `used` */
    if (mapping->file && !atomic_load_explicit(&mapping->file->used, memory_order_relaxed))
        atomic_store(&mapping->file->used, true);
}

/* Called with the lock held. A file that was removed or replaced stays complete for its mapping; only the
 * same file with fewer bytes is a loss. */
static clt_status check_entry(struct clt_mapped *m)
{
    struct stat now;
    bool same = stat(m->path, &now) == 0 && now.st_dev == m->device && now.st_ino == m->number;
    if (same && (uint64_t)now.st_size < atomic_load(&m->size)) {
        atomic_store(&m->lost, true);
        CLT_FAIL(m->code,
                 "reading '%s': it ends after %llu bytes now, and had %llu when it was opened; something cut "
                 "or rewrote it while it was in use; put the whole file back",
                 m->path, (unsigned long long)now.st_size, (unsigned long long)atomic_load(&m->size));
    }
    if (m->failure.status != CLT_OK)
        return clt_error_put(&m->failure);
    if (atomic_load(&m->lost))
        CLT_FAIL(m->code,
                 "reading '%s': a part of it could not be read: it was shorter for a while, or its disk or "
                 "network failed; check the file",
                 m->path);
    return CLT_OK;
}

static clt_status check_thread(void)
{
    if (!gave_up)
        return CLT_OK;
    gave_up = false;
    CLT_FAIL(CLT_EINTERRUPTED, "reading data: the program was stopped while bytes of it were on their way");
}

clt_status clt_map_check(void)
{
    clt_status status = CLT_OK;
    clt_map_unpin();
    CLT_TRY(check_thread());
    CLT_LOCKED(&lock);
    for (struct clt_mapped *m = atomic_load(&entries); m && status == CLT_OK; m = m->next)
        if (atomic_load(&m->begin) != 0 && (atomic_exchange(&m->used, false) || atomic_load(&m->lost)))
            status = check_entry(m);
    return status;
}

clt_status clt_map_check_one(const clt_mapping *mapping)
{
    clt_status status = CLT_OK;
    CLT_TRY(check_thread());
    if (mapping->file) {
        pthread_mutex_lock(&lock);
        status = check_entry(mapping->file);
        pthread_mutex_unlock(&lock);
    }
    return status;
}
