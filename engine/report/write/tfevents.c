/* SPDX-License-Identifier: Apache-2.0
 *
 * Names event files, forms their records and writes them. A failure never ends the run. */
#include "engine/report/write/tfevents.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "engine/files/crc32c.h"
#include "engine/files/fileio.h"
#include "engine/report/write/protobuf.h"

#define PREFIX "events.out.tfevents."

struct clt_tfevents {
    char *path;
    int fd;
    clt_str waiting; /* complete records that have not been written */
    uint64_t lost;   /* records that did not fit */
    double written;  /* time of the last attempt to write */
    bool stuck;      /* the last attempt to write failed */
    bool told;
    char trouble[CLT_ERROR_TEXT_SIZE + 128];
};

/* --- records --- */

static uint32_t mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_le(clt_str *out, uint64_t value, size_t size)
{
    char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(value >> 8 * i & 0xffu);
    clt_str_append_n(out, bytes, size);
}

void clt_tfevents_record(clt_str *out, const void *message, size_t size)
{
    size_t at = out->length;
    put_le(out, size, 8);
    if (out->failed)
        return;
    put_le(out, mask(clt_crc32c(out->text + at, 8)), 4);
    clt_str_append_n(out, message, size);
    put_le(out, mask(clt_crc32c(message, size)), 4);
}

/* --- names --- */

/* The seconds in the name of the newest event file in the folder; 0: there is no event file. */
static long long newest_seconds(const char *folder)
{
    long long newest = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0)
            continue;
        char *end;
        long long seconds = strtoll(entry->d_name + sizeof PREFIX - 1, &end, 10);
        if (*end == '.' && seconds > newest && seconds < 9999999999LL)
            newest = seconds;
    }
    closedir(dir);
    return newest;
}

static void file_name(const char *folder, char *name, size_t size)
{
    char host[64] = "";
    long long newest = newest_seconds(folder), now = (long long)clt_wall_time();
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        (void)snprintf(host, sizeof host, "localhost");
    for (char *c = host; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-'))
            *c = '_';
    (void)snprintf(name, size, PREFIX "%010lld.%s.%ld.0", now > newest ? now : newest + 1, host,
                   (long)getpid());
}

/* --- the file --- */

static void add_version(clt_tfevents *f)
{
    CLT_SCOPED(clt_str) event = {0};
    clt_pb_double(&event, 1, clt_wall_time());
    clt_pb_string(&event, 3, "brain.Event:2");
    clt_tfevents_add(f, &event);
}

clt_status clt_tfevents_create(const char *folder, clt_tfevents **out)
{
    CLT_SCOPED(clt_tfevents) *f = NULL;
    char name[192];
    *out = NULL;
    CLT_TRY(clt_alloc(&f, 1, sizeof *f, "event file"));
    f->fd = -1;
    file_name(folder, name, sizeof name);
    CLT_TRY(clt_path_join(folder, name, &f->path));
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (f->fd < 0)
        CLT_FAIL(CLT_ESTORAGE, "opening '%s' for writing: %s", f->path, strerror(errno));
    f->written = clt_now();
    add_version(f);
    *out = CLT_TAKE(f);
    return CLT_OK;
}

void clt_tfevents_close(clt_tfevents *f)
{
    if (!f)
        return;
    if (f->fd >= 0) {
        clt_tfevents_flush(f);
        close(f->fd);
    }
    clt_str_free(&f->waiting);
    free(f->path);
    free(f);
}

const char *clt_tfevents_path(const clt_tfevents *f)
{
    return f->path;
}

static void note_trouble(clt_tfevents *f, const char *what)
{
    if (!f->told && !f->trouble[0])
        (void)snprintf(f->trouble, sizeof f->trouble, "%s: %s", what, clt_error_text());
}

/* Writes all waiting records or none, because readers stop at an incomplete record. */
void clt_tfevents_flush(clt_tfevents *f)
{
    struct stat before;
    f->written = clt_now();
    if (f->waiting.length == 0)
        return;
    bool regular = fstat(f->fd, &before) == 0 && S_ISREG(before.st_mode);
    CLT_KEEP_ERROR(); /* the thread may be handling an error */
    clt_status status = clt_fd_write(f->fd, f->waiting.text, f->waiting.length, f->path);
    f->stuck = status != CLT_OK;
    if (status == CLT_OK) {
        f->waiting.length = 0;
        return;
    }
    note_trouble(f, "training continues and its TensorBoard events wait in memory");
    if (regular && ftruncate(f->fd, before.st_size) != 0 && !f->told)
        (void)snprintf(f->trouble, sizeof f->trouble, "'%s' may hold half a record: %s", f->path,
                       strerror(errno));
}

void clt_tfevents_add(clt_tfevents *f, clt_str *event)
{
    size_t most = f->stuck ? CLT_TFEVENTS_WAITING : SIZE_MAX / 2;
    size_t before = f->waiting.length;
    if (event->failed || event->length > most - (before < most ? before : most)) {
        f->lost++;
        event->length = 0;
        event->failed = false;
        return;
    }
    clt_tfevents_record(&f->waiting, event->text ? event->text : "", event->length);
    event->length = 0;
    if (f->waiting.failed) { /* no memory: this record is lost, earlier ones are complete */
        f->waiting.failed = false;
        f->waiting.length = before;
        f->lost++;
        return;
    }
    double age = clt_now() - f->written;
    if (age >= CLT_TFEVENTS_SECONDS || (f->waiting.length >= CLT_TFEVENTS_BYTES && !f->stuck))
        clt_tfevents_flush(f);
}

bool clt_tfevents_trouble(clt_tfevents *f, char *text, size_t size)
{
    if (!f->trouble[0])
        return false;
    (void)snprintf(text, size, "%s", f->trouble);
    f->trouble[0] = '\0';
    f->told = true;
    return true;
}
