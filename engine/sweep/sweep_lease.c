/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases as files. A holder is named by its host, the start of the machine, the name space of process ids,
 * the process and the start of the process; the modification time of its file says when it last renewed the
 * lease. */
#include "engine/sweep/sweep_lease.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/fileio.h"
#include "engine/files/process.h"
#include "engine/json/json.h"

static clt_status number_path(const char *path, int number, clt_str *out)
{
    out->length = 0;
    clt_str_printf(out, "%s.%d", path, number);
    return clt_str_check(out);
}

/* The holder of a lease, as the lease's file describes it. */
typedef struct holder {
    char host[256], boot[64];
    int64_t space, process, started;
    bool released;
} holder;

static void this_process(holder *h)
{
    memset(h, 0, sizeof *h);
    if (gethostname(h->host, sizeof h->host - 1) != 0)
        snprintf(h->host, sizeof h->host, "?");
    clt_boot_identity(h->boot, sizeof h->boot);
    h->space = clt_process_space();
    h->process = getpid();
    h->started = clt_process_start(getpid());
}

static clt_status holder_text(const holder *h, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "host", h->host);
    clt_jw_kstring(&w, "boot", h->boot);
    clt_jw_kint(&w, "space", h->space);
    clt_jw_kint(&w, "process", h->process);
    clt_jw_kint(&w, "started", h->started);
    clt_jw_kbool(&w, "released", h->released);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}

static int64_t whole_member(const clt_json *object, const char *name)
{
    int64_t number = -1;
    (void)clt_json_int(clt_json_get(object, name), &number);
    return number;
}

static void text_member(const clt_json *object, const char *name, char *out, size_t size)
{
    const clt_json *value = clt_json_get(object, name);
    snprintf(out, size, "%s", value ? clt_json_string(value) : "?");
}

/* False: the file cannot be read, or is being made by a host whose file system has no hard links. */
static bool read_holder(const char *file, holder *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_FREED char *text = NULL;
    size_t length;
    memset(out, 0, sizeof *out);
    if (clt_file_read(file, false, 4096, CLT_EDATA, &text, &length) != CLT_OK ||
        clt_json_parse(text, length, file, CLT_EDATA, &doc) != CLT_OK) {
        clt_error_clear();
        return false;
    }
    const clt_json *root = clt_json_root(doc);
    text_member(root, "host", out->host, sizeof out->host);
    text_member(root, "boot", out->boot, sizeof out->boot);
    out->space = whole_member(root, "space");
    out->process = whole_member(root, "process");
    out->started = whole_member(root, "started");
    out->released = clt_json_bool(clt_json_get(root, "released"));
    return true;
}

/* True if the holder gave the lease back, or was a process of this machine that is gone. */
static bool is_over(const char *file)
{
    holder h, here;
    this_process(&here);
    if (!read_holder(file, &h))
        return false;
    bool machine = strcmp(h.boot, "?") != 0 && strcmp(h.boot, here.boot) == 0 && h.space == here.space;
    return h.released || (machine && clt_process_start(h.process) != h.started);
}

/* Moves on to the newest file, and notices whether it has changed. `file` gets its path. */
static clt_status look(const char *path, double now, clt_lease *lease, clt_str *file)
{
    struct stat info = {0};
    CLT_TRY(number_path(path, lease->number + 1, file));
    while (clt_file_exists(file->text)) {
        lease->number++;
        lease->since = now;
        CLT_TRY(number_path(path, lease->number + 1, file));
    }
    CLT_TRY(number_path(path, lease->number, file));
    /* opening it makes a network file system ask for its newest attributes */
    CLT_CLOSED int fd = lease->number > 0 ? open(file->text, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &info) != 0)
        return CLT_OK;
    const int64_t changed[2] = {info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    if (memcmp(changed, lease->changed, sizeof changed) != 0) {
        memcpy(lease->changed, changed, sizeof changed);
        lease->since = now;
    }
    return CLT_OK;
}

clt_status clt_lease_take(const char *path, double now, double expiry, clt_lease *lease)
{
    CLT_SCOPED(clt_str) file = {0}, text = {0};
    holder self;
    lease->held = false;
    CLT_TRY(look(path, now, lease, &file));
    if (lease->number > 0 && now - lease->since < expiry && !is_over(file.text))
        return CLT_OK;
    this_process(&self);
    CLT_TRY(holder_text(&self, &text));
    CLT_TRY(number_path(path, lease->number + 1, &file));
    CLT_TRY(clt_file_create(file.text, text.text, text.length, &lease->held));
    lease->number++; /* this process made the file, or another one was faster */
    lease->since = now;
    return CLT_OK;
}

void clt_lease_renew(const char *path, double now, double expiry, clt_lease *lease)
{
    CLT_SCOPED(clt_str) file = {0};
    if (number_path(path, lease->number + 1, &file) != CLT_OK) {
        clt_error_clear();
        return;
    }
    bool taken = clt_file_exists(file.text);
    if (!taken && number_path(path, lease->number, &file) == CLT_OK &&
        utimensat(AT_FDCWD, file.text, NULL, 0) == 0)
        lease->since = now;
    lease->held = !taken && now - lease->since < expiry;
    clt_error_clear();
}

clt_status clt_lease_release(const char *path, clt_lease *lease)
{
    CLT_SCOPED(clt_str) file = {0}, text = {0};
    holder self;
    lease->held = false;
    this_process(&self);
    self.released = true;
    CLT_TRY(holder_text(&self, &text));
    CLT_TRY(number_path(path, lease->number, &file));
    return clt_file_write(file.text, text.text, text.length);
}

bool clt_lease_holder(const char *path, char *who, size_t size)
{
    CLT_SCOPED(clt_str) file = {0};
    clt_lease lease = {0};
    holder h;
    bool held = look(path, 0, &lease, &file) == CLT_OK && lease.number > 0 && !is_over(file.text) &&
                read_holder(file.text, &h);
    clt_error_clear();
    if (held)
        snprintf(who, size, "process %lld on %s", (long long)h.process, h.host);
    return held;
}
