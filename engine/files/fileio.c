/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads whole files, also packed with gzip, and writes files durably. Paths and folders are in folder.c,
 * mappings in mapping.c. Knows no file format but gzip. */
#include "engine/files/fileio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/fileio_error.h"
#include "engine/files/process.h"
#include "engine/files/remote_files.h"

/* For a path at which nothing is, writes what the user may have meant: the nearest name in the folder, else
 * up to three names there with the same ending. Writes that the folder is missing, if it is. */
static void say_what_is_there(const char *path, clt_str *out)
{
    CLT_SCOPED(clt_file_list) names = {0};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *end = strrchr(name, '.');
    CLT_FREED char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!folder || clt_folder_names(folder, &names) != CLT_OK) {
        if (folder && !clt_file_exists(folder))
            clt_str_printf(out, "; there is no folder '%s'", folder);
        return;
    }
    const char *near = clt_nearest_name(name, (const char *const *)names.name, names.count);
    if (near) {
        clt_str_printf(out, "; did you mean '%.*s%s'?", (int)(name - path), path, near);
        return;
    }
    size_t alike = 0;
    for (size_t i = 0; end && i < names.count; i++) {
        const char *other = strrchr(names.name[i], '.');
        if (other && strcmp(other, end) == 0 && ++alike <= 3)
            clt_str_printf(out, "%s'%s'", alike == 1 ? "; its folder holds " : ", ", names.name[i]);
    }
    if (alike > 3)
        clt_str_printf(out, " and %zu more", alike - 3);
}

static clt_status fail_open(const char *path, clt_status code, int error)
{
    CLT_SCOPED(clt_str) there = {0};
    if (error == ENOENT)
        say_what_is_there(path, &there);
    if (!there.text)
        return clt_fail_errno(code, error, "opening '%s' for reading", path);
    char why[CLT_ERRNO_TEXT];
    CLT_FAIL(code, "opening '%s' for reading: %s%s", path, clt_errno_text(error, why), there.text);
}

clt_status clt_open_start(const char *path, clt_status code, uint64_t bytes, int *fd, struct stat *info)
{
    CLT_CLOSED int opened = -1;
    *fd = -1;
    if (clt_is_remote(path)) {
        CLT_TRY(clt_remote_files_check(path));
        CLT_TRY(clt_remote_files_used()->open(path, code, bytes, &opened));
    } else {
        do {
            opened = open(path, O_RDONLY | O_CLOEXEC);
        } while (opened < 0 && errno == EINTR);
        if (opened < 0)
            return fail_open(path, code, errno);
    }
    if (fstat(opened, info) != 0)
        return clt_fail_errno(code, errno, "looking at '%s'", path);
    if (S_ISDIR(info->st_mode))
        CLT_FAIL(code, "reading '%s': it is a folder, a file is expected; check the path", path);
    *fd = opened;
    opened = -1;
    return CLT_OK;
}

clt_status clt_open_read(const char *path, clt_status code, int *fd, struct stat *info)
{
    return clt_open_start(path, code, UINT64_MAX, fd, info);
}

FILE *clt_file_open(const char *path, clt_status code)
{
    int fd;
    struct stat info;
    if (clt_open_read(path, code, &fd, &info) != CLT_OK)
        return NULL;
    FILE *file = fdopen(fd, "rb");
    if (!file) {
        (void)clt_fail_errno(code, errno, "opening '%s' for reading", path);
        (void)close(fd);
    }
    return file;
}

static clt_status too_big(const char *path, uint64_t max_bytes, clt_status code, bool *exceeds)
{
    *exceeds = true;
    CLT_FAIL(code,
             "reading '%s': it holds more than the %llu bytes that are allowed here; is it the right file?",
             path, (unsigned long long)max_bytes);
}

/* Reads to the end (a pipe has no size); the buffer always has room for a final NUL. `limit` 0 = none. */
static clt_status read_all(int fd, const char *path, uint64_t guess, uint64_t limit, clt_status code,
                           bool *exceeds, char **data, size_t *size)
{
    CLT_FREED char *buffer = NULL;
    size_t capacity = 0, used = 0;
    /* The guess of the size only saves reallocations; it may be wrong. */
    if (guess > (1ull << 40) || (limit && guess > limit))
        guess = 0;
    CLT_TRY(clt_grow(&buffer, &capacity, (size_t)guess + 2, 1, path));
    for (;;) {
        size_t room = capacity - used - 1;
        if (room == 0) {
            CLT_TRY(clt_grow(&buffer, &capacity, capacity + 1, 1, path));
            continue;
        }
        ssize_t n = read(fd, buffer + used, room > (1u << 30) ? (1u << 30) : room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return clt_fail_errno(code, errno, "reading '%s' at byte %zu", path, used);
        if (n == 0)
            break;
        used += (size_t)n;
        if (limit && used > limit)
            return too_big(path, limit, code, exceeds);
    }
    buffer[used] = '\0';
    *data = CLT_TAKE(buffer);
    *size = used;
    return CLT_OK;
}

/* State of unpacking one file, which may hold several gzip members one after the other. */
typedef struct unpack {
    const char *path;
    clt_status code;
    uint64_t max_bytes;
    bool *exceeds;
    const char *in;
    size_t in_size, in_used;
    char *out;
    size_t out_capacity, out_used;
    z_stream stream;
} unpack;

static clt_status unpack_failed(const unpack *u, int result)
{
    if (result == Z_MEM_ERROR)
        CLT_FAIL(CLT_ENOMEM, "unpacking '%s': out of host memory", u->path);
    if (result == Z_BUF_ERROR)
        CLT_FAIL(
            u->code,
            "unpacking '%s': the gzip stream ends early, after %zu bytes of the file; the file is cut off, "
            "copy or download it again",
            u->path, u->in_used);
    CLT_FAIL(u->code,
             "unpacking '%s': the gzip stream is damaged near byte %zu: %s; copy or download it again",
             u->path, u->in_used, u->stream.msg ? u->stream.msg : zError(result));
}

/* Unpacks one gzip member. */
static clt_status unpack_member(unpack *u)
{
    int result = Z_OK;
    while (result != Z_STREAM_END) {
        if (u->out_capacity - u->out_used < 2)
            CLT_TRY(clt_grow(&u->out, &u->out_capacity, u->out_capacity + 1, 1, u->path));
        size_t in_left = u->in_size - u->in_used, room = u->out_capacity - u->out_used - 1;
        uInt in_now = (uInt)(in_left > (1u << 30) ? (1u << 30) : in_left);
        uInt out_now = (uInt)(room > (1u << 30) ? (1u << 30) : room);
        u->stream.next_in = (Bytef *)(uintptr_t)(u->in + u->in_used);
        u->stream.avail_in = in_now;
        u->stream.next_out = (Bytef *)(u->out + u->out_used);
        u->stream.avail_out = out_now;
        result = inflate(&u->stream, Z_NO_FLUSH);
        size_t eaten = in_now - u->stream.avail_in, made = out_now - u->stream.avail_out;
        u->in_used += eaten;
        u->out_used += made;
        if (result == Z_NEED_DICT)
            result = Z_DATA_ERROR;
        if (result != Z_OK && result != Z_STREAM_END)
            return unpack_failed(u, result);
        if (u->max_bytes && u->out_used > u->max_bytes)
            return too_big(u->path, u->max_bytes, u->code, u->exceeds);
    }
    return CLT_OK;
}

bool clt_is_gzip(const void *bytes, size_t size)
{
    return size >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

static clt_status unpack_members(unpack *u)
{
    while (clt_is_gzip(u->in + u->in_used, u->in_size - u->in_used)) {
        int result = inflateReset(&u->stream);
        if (result != Z_OK)
            return unpack_failed(u, result);
        CLT_TRY(unpack_member(u));
    }
    /* Tapes and some tools pad files with zeros. Any other trailing bytes are data, which must not be
     * dropped silently. */
    for (size_t i = u->in_used; i < u->in_size; i++)
        if (u->in[i] != 0)
            CLT_FAIL(u->code,
                     "unpacking '%s': bytes follow the end of the gzip stream at byte %zu; the file is "
                     "damaged, copy or download it again",
                     u->path, i);
    return CLT_OK;
}

static clt_status gunzip_data(const char *path, uint64_t max_bytes, clt_status code, bool *exceeds,
                              char **data, size_t *size)
{
    unpack u = {.path = path,
                .code = code,
                .max_bytes = max_bytes,
                .exceeds = exceeds,
                .in = *data,
                .in_size = *size};
    int result = inflateInit2(&u.stream, 15 + 16);
    if (result != Z_OK)
        return unpack_failed(&u, result);
    size_t guess = *size < (1u << 30) ? *size * 4 + 2 : 2;
    guess = max_bytes && guess > max_bytes + 2 ? (size_t)max_bytes + 2 : guess;
    clt_status status = clt_grow(&u.out, &u.out_capacity, guess, 1, path);
    if (status == CLT_OK)
        status = unpack_members(&u);
    inflateEnd(&u.stream);
    if (status != CLT_OK) {
        free(u.out);
        return status;
    }
    u.out[u.out_used] = '\0';
    free(*data);
    *data = u.out;
    *size = u.out_used;
    return CLT_OK;
}

/* Reads an open file from its current position. */
static clt_status read_open(int fd, uint64_t guess, const char *path, bool gunzip, uint64_t max_bytes,
                            clt_status code, bool *exceeds, char **data, size_t *size)
{
    CLT_FREED char *content = NULL;
    size_t length = 0;
    /* Incompressible data grows a little when it is packed, so a packed file may be larger than its
     * content. */
    uint64_t limit = max_bytes && gunzip ? max_bytes + max_bytes / 64 + 4096 : max_bytes;
    CLT_TRY(read_all(fd, path, guess, limit, code, exceeds, &content, &length));
    if (gunzip && clt_is_gzip(content, length))
        CLT_TRY(gunzip_data(path, max_bytes, code, exceeds, &content, &length));
    else if (max_bytes && length > max_bytes)
        return too_big(path, max_bytes, code, exceeds);
    *data = CLT_TAKE(content);
    *size = length;
    return CLT_OK;
}

/* *exceeds: true if the call failed because the file holds more than `max_bytes`. */
static clt_status read_whole(const char *path, bool gunzip, uint64_t max_bytes, clt_status code,
                             bool *exceeds, char **data, size_t *size)
{
    int fd;
    struct stat info;
    *exceeds = false;
    *data = NULL;
    *size = 0;
    CLT_TRY(clt_open_read(path, code, &fd, &info));
    uint64_t guess = S_ISREG(info.st_mode) && info.st_size > 0 ? (uint64_t)info.st_size : 0;
    clt_status status = read_open(fd, guess, path, gunzip, max_bytes, code, exceeds, data, size);
    close(fd);
    return status;
}

/* `offset` -1: writes at the descriptor's position. */
static clt_status write_all(int fd, const void *data, size_t size, off_t offset, const char *path)
{
    const char *bytes = data;
    size_t done = 0;
    while (done < size) {
        size_t left = size - done > (1u << 30) ? (1u << 30) : size - done;
        ssize_t n =
            offset < 0 ? write(fd, bytes + done, left) : pwrite(fd, bytes + done, left, offset + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return clt_fail_errno(CLT_ESTORAGE, errno, "writing '%s' at byte %zu of %zu", path, done, size);
        done += (size_t)n;
    }
    return CLT_OK;
}

clt_status clt_fd_write(int fd, const void *data, size_t size, const char *path)
{
    return write_all(fd, data, size, -1, path);
}

clt_status clt_fd_write_at(int fd, const void *data, size_t size, uint64_t offset, const char *path)
{
    return write_all(fd, data, size, (off_t)offset, path);
}

clt_status clt_fsync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "opening '%s' to make it durable", path);
    int result;
    do {
        result = fsync(fd);
    } while (result != 0 && errno == EINTR);
    int code = result == 0 ? 0 : errno;
    struct stat info;
    /* Some network file systems cannot sync a folder and return these errors, which do not count as
     * failures. */
    bool excused = (code == EINVAL || code == ENOTSUP) && fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    close(fd);
    if (code != 0 && !excused)
        return clt_fail_errno(CLT_ESTORAGE, code, "making '%s' durable (fsync)", path);
    return CLT_OK;
}

clt_status clt_fsync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return clt_fsync_path(".");
    if (slash == path)
        return clt_fsync_path("/");
    CLT_FREED char *parent = NULL;
    CLT_TRY(clt_alloc(&parent, (size_t)(slash - path) + 1, 1, "a path"));
    memcpy(parent, path, (size_t)(slash - path));
    return clt_fsync_path(parent);
}

clt_status clt_file_read(const char *path, bool gunzip, uint64_t max_bytes, clt_status code, char **data,
                         size_t *size)
{
    bool exceeds;
    return read_whole(path, gunzip, max_bytes, code, &exceeds, data, size);
}

static clt_status needs_more(const char *path, uint64_t memory)
{
    CLT_FAIL(CLT_ENOMEM,
             "reading '%s': its content needs more than the %llu MiB of memory that are available", path,
             (unsigned long long)(memory >> 20));
}

clt_status clt_file_read_data(const char *path, uint64_t declared, clt_status code, char **data, size_t *size)
{
    uint64_t memory = clt_memory_available(), limit = declared && declared < memory ? declared : memory;
    bool exceeds;
    clt_status status = read_whole(path, true, limit ? limit : 1, code, &exceeds, data, size);
    if (!exceeds)
        return status;
    if (limit == declared)
        CLT_FAIL(code,
                 "reading '%s': more follows the %llu bytes that its header declares: header and content do "
                 "not belong together; copy or download the file again",
                 path, (unsigned long long)declared);
    return needs_more(path, memory);
}

clt_status clt_stdin_read_data(clt_status code, char **data, size_t *size)
{
    const char *name = "standard input";
    uint64_t memory = clt_memory_available();
    bool exceeds = false;
    *data = NULL;
    *size = 0;
    clt_status status =
        read_open(STDIN_FILENO, 0, name, true, memory ? memory : 1, code, &exceeds, data, size);
    return exceeds ? needs_more(name, memory) : status;
}

static clt_status no_regular_file(const char *path)
{
    CLT_FAIL(CLT_ESTORAGE,
             "writing '%s': it is not a regular file but a link, a pipe or a device, which is not written to "
             "under this name; remove it",
             path);
}

clt_status clt_own_file_check(const char *path)
{
    struct stat info;
    CLT_TRY(clt_refuse_remote(path));
    bool good = lstat(path, &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
    return good ? CLT_OK : no_regular_file(path);
}

void clt_file_want(const char *path)
{
    if (clt_is_remote(path) && clt_remote_files_used())
        clt_remote_files_used()->want_path(path, UINT64_MAX);
}

size_t clt_file_first(const char *path, void *buffer, size_t size)
{
    int fd;
    struct stat info;
    ssize_t n;
    CLT_KEEP_ERROR();
    if (!clt_is_regular(path) || clt_open_start(path, CLT_EDATA, size, &fd, &info) != CLT_OK)
        return 0;
    do {
        n = read(fd, buffer, size);
    } while (n < 0 && errno == EINTR);
    (void)close(fd);
    return n > 0 ? (size_t)n : 0;
}

clt_status clt_own_file_append(const char *path, int *fd)
{
    struct stat info;
    *fd = -1;
    CLT_TRY(clt_refuse_remote(path));
    /* O_NONBLOCK: a pipe that nobody reads would block here */
    *fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*fd >= 0 && fstat(*fd, &info) == 0 && S_ISREG(info.st_mode))
        return CLT_OK;
    int code = errno;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    CLT_TRY(clt_own_file_check(path));
    return clt_fail_errno(CLT_ESTORAGE, code, "opening '%s' for writing", path);
}

clt_status clt_own_file_create(const char *path, int *fd)
{
    *fd = -1;
    CLT_TRY(clt_refuse_remote(path));
    (void)unlink(path); /* a file that an earlier process left, or another user's link or pipe */
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd >= 0 ? CLT_OK : clt_fail_errno(CLT_ESTORAGE, errno, "creating '%s'", path);
}

clt_status clt_own_file_write(const char *path, const void *data, size_t size)
{
    CLT_TRY(clt_own_file_check(path));
    return clt_file_write(path, data, size);
}

/* Creates, fills, syncs and closes `path`. */
static clt_status write_new(const char *path, clt_file_filler fill, void *context)
{
    int fd;
    CLT_TRY(clt_own_file_create(path, &fd));
    clt_status status = fill(context, fd, path);
    if (status == CLT_OK && fsync(fd) != 0)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "making '%s' durable (fsync)", path);
    if (close(fd) != 0 && status == CLT_OK && errno != EINTR)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "closing '%s'", path);
    return status;
}

/* True if the path is a device or a pipe, which cannot be replaced by renaming and is written directly. */
static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static clt_status write_special(const char *path, clt_file_filler fill, void *context)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "opening '%s' for writing", path);
    clt_status status = fill(context, fd, path);
    if (close(fd) != 0 && status == CLT_OK && errno != EINTR)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "closing '%s'", path);
    return status;
}

clt_status clt_temporary_name(const char *path, const char *what, clt_str *out)
{
    char mark[CLT_PROCESS_MARK];
    clt_str_printf(out, "%s.%s-%s", path, what, clt_process_mark(mark));
    return clt_str_check(out);
}

clt_status clt_file_write_by(const char *path, clt_file_filler fill, void *context)
{
    CLT_SCOPED(clt_str) temporary = {0};
    CLT_TRY(clt_refuse_remote(path));
    if (is_special(path))
        return write_special(path, fill, context);
    CLT_TRY(clt_temporary_name(path, "tmp", &temporary));
    clt_status status = write_new(temporary.text, fill, context);
    if (status == CLT_OK && rename(temporary.text, path) != 0)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary.text, path);
    if (status == CLT_OK)
        return clt_fsync_parent(path);
    (void)unlink(temporary.text);
    return status;
}

typedef struct whole {
    const void *data;
    size_t size;
} whole;

static clt_status fill_whole(void *context, int fd, const char *path)
{
    const whole *w = context;
    return clt_fd_write(fd, w->data, w->size, path);
}

clt_status clt_file_write(const char *path, const void *data, size_t size)
{
    whole w = {data, size};
    return clt_file_write_by(path, fill_whole, &w);
}

/* Gives the complete file `temporary` its name, unless that is taken. A network file system may make the
 * link and lose its answer; then the number of links shows that it was made. On a file system without hard
 * links the name is reserved first, so that the file is empty for a moment. */
static clt_status name_new(const char *temporary, const char *path, bool *created)
{
    struct stat info;
    int code = link(temporary, path) == 0 ? 0 : errno;
    if (code == 0 || (stat(temporary, &info) == 0 && info.st_nlink == 2)) {
        *created = true;
        return CLT_OK;
    }
    if (code == EEXIST)
        return CLT_OK;
    if (code != EPERM && code != ENOTSUP && code != ENOSYS && code != EMLINK)
        return clt_fail_errno(CLT_ESTORAGE, code, "creating '%s'", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return CLT_OK;
    if (fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating '%s'", path);
    close(fd);
    if (rename(temporary, path) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary, path);
    *created = true;
    return CLT_OK;
}

clt_status clt_file_create(const char *path, const void *data, size_t size, bool *created)
{
    CLT_SCOPED(clt_str) temporary = {0};
    uint64_t number = 0; /* random, since a process on another host may have the same id */
    *created = false;
    CLT_TRY(clt_refuse_remote(path));
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return clt_fail_errno(CLT_ESTORAGE, errno, "drawing a name for '%s'", path);
    clt_str_printf(&temporary, "%s.tmp-%016llx", path, (unsigned long long)number);
    CLT_TRY(clt_str_check(&temporary));
    clt_status status = write_new(temporary.text, fill_whole, &(whole){data, size});
    if (status == CLT_OK)
        status = name_new(temporary.text, path, created);
    (void)unlink(temporary.text);
    CLT_TRY(status);
    return *created ? clt_fsync_parent(path) : CLT_OK;
}

clt_status clt_file_can_write(const char *path)
{
    clt_status status = CLT_OK;
    clt_str temporary = {0};
    CLT_TRY(clt_refuse_remote(path));
    if (clt_is_directory(path))
        CLT_FAIL(CLT_ESTORAGE, "writing '%s': it is a folder, the name of a file is expected", path);
    if (is_special(path))
        return access(path, W_OK) == 0 ? CLT_OK : clt_fail_errno(CLT_ESTORAGE, errno, "writing '%s'", path);
    CLT_TRY_GOTO(clt_temporary_name(path, "tmp", &temporary), done);
    status = write_new(temporary.text, fill_whole, &(whole){NULL, 0});
    (void)unlink(temporary.text);
done:
    clt_str_free(&temporary);
    return status;
}
