/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads metrics.jsonl: a first pass over the file finds where a resumed run repeats steps, a second pass
 * returns the lines. Does not know what the lines are for. */
#include "engine/report/read/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"

#define CHUNK (1u << 20)
#define MAX_REWINDS 65536

/* At byte `offset` a resumed run repeats the steps from `step` on: earlier lines about these steps no longer
 * count. */
typedef struct rewind_mark {
    uint64_t offset;
    int64_t step;
} rewind_mark;

struct clt_history {
    int fd;
    char *path;
    char *buffer;
    size_t capacity, used, at; /* bytes in the buffer; start of the next line */
    uint64_t offset;           /* position of buffer[0] in the file */
    bool too_long;             /* the reader is inside a line that is too long, and skips it */
    rewind_mark *rewinds;      /* marks whose two members both ascend */
    size_t rewind_count, rewind_capacity, rewind_at;
    int64_t previous; /* the last training step that was returned */
    bool rewound;     /* a step was repeated after the file was opened */
    clt_history_counts counts;
};

/* Reads more of the file into the buffer, whose complete lines have all been returned. *got = 0 at the end
 * of the file. */
static clt_status fill(clt_history *h, size_t *got)
{
    memmove(h->buffer, h->buffer + h->at, h->used - h->at);
    h->offset += h->at;
    h->used -= h->at;
    h->at = 0;
    if (h->used > CLT_HISTORY_MAX_LINE) {
        h->too_long = true;
        h->offset += h->used;
        h->used = 0;
    }
    if (h->capacity - h->used < CHUNK)
        CLT_TRY(clt_grow(&h->buffer, &h->capacity, h->used + CHUNK, 1, "a line of metrics"));
    ssize_t n;
    do {
        n = pread(h->fd, h->buffer + h->used, h->capacity - h->used, (off_t)(h->offset + h->used));
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return clt_fail_errno(CLT_EDATA, errno, "reading '%s'", h->path);
    *got = (size_t)n;
    h->used += (size_t)n;
    h->counts.bytes = h->offset + h->used;
    return CLT_OK;
}

/* The next complete line in *text and its position in the file in *at; *text = NULL at the end. */
static clt_status raw_line(clt_history *h, const char **text, size_t *length, uint64_t *at)
{
    size_t searched = 0; /* bytes after h->at in which there is no newline */
    *text = NULL;
    for (;;) {
        char *end = memchr(h->buffer + h->at + searched, '\n', h->used - h->at - searched);
        if (!end) {
            size_t got = 0;
            searched = h->used - h->at;
            CLT_TRY(fill(h, &got));
            searched = h->too_long ? 0 : searched;
            h->counts.torn = h->used > 0 || h->too_long;
            if (got == 0)
                return CLT_OK;
            continue;
        }
        const char *line = h->buffer + h->at;
        *length = (size_t)(end - line);
        *at = h->offset + h->at;
        h->at += *length + 1;
        h->counts.lines++;
        h->counts.torn = h->at < h->used;
        searched = 0;
        if (h->too_long || *length > CLT_HISTORY_MAX_LINE) {
            h->too_long = false;
            h->counts.garbage++;
            continue;
        }
        *text = line;
        return CLT_OK;
    }
}

static clt_status add_rewind(clt_history *h, uint64_t offset, int64_t step)
{
    while (h->rewind_count > 0 && h->rewinds[h->rewind_count - 1].step >= step)
        h->rewind_count--;
    if (h->rewind_count ==
        MAX_REWINDS) /* no real run is resumed more often; further repetitions are not detected */
        return CLT_OK;
    CLT_TRY(clt_grow(&h->rewinds, &h->rewind_capacity, h->rewind_count + 1, sizeof *h->rewinds,
                     "places where a run was resumed"));
    h->rewinds[h->rewind_count++] = (rewind_mark){offset, step};
    return CLT_OK;
}

/* Recognises the line of a step quickly, if it begins as runs write it: {"step":N,"update": */
static bool quick_step(const char *line, size_t length, int64_t *step)
{
    static const char begin[] = "{\"step\":";
    size_t at = sizeof begin - 1;
    if (length < at + 2 || memcmp(line, begin, at) != 0 || line[length - 1] != '}' || line[at] < '1' ||
        line[at] > '9')
        return false;
    int64_t value = 0;
    for (; at < length && line[at] >= '0' && line[at] <= '9'; at++) {
        if (value > CLT_METRICS_MAX_STEP / 10)
            return false;
        value = value * 10 + (line[at] - '0');
    }
    *step = value;
    static const char next[] = ",\"update\":";
    return length - at > sizeof next && memcmp(line + at, next, sizeof next - 1) == 0;
}

/* *step: the step of a training line, -1 for other lines. */
static clt_status training_step(const char *line, size_t length, int64_t *step)
{
    clt_metrics_line values;
    if (quick_step(line, length, step))
        return CLT_OK;
    clt_status status = clt_metrics_line_read(line, length, &values);
    *step = status == CLT_OK && values.kind == CLT_LINE_STEP ? values.step : -1;
    return status == CLT_EDATA ? CLT_OK : status;
}

static clt_status first_pass(clt_history *h)
{
    const char *line;
    size_t length;
    uint64_t at;
    int64_t step, previous = -1, first = -1, last = -1, steps = 0;
    for (;;) {
        CLT_TRY(raw_line(h, &line, &length, &at));
        if (!line)
            break;
        CLT_TRY(training_step(line, length, &step));
        if (step < 0)
            continue;
        if (step <= previous)
            CLT_TRY(add_rewind(h, at, step));
        previous = step;
        first = first < 0 || step < first ? step : first;
        last = step > last ? step : last;
        steps++;
    }
    h->counts = (clt_history_counts){.first = first, .last = last, .steps = steps};
    h->offset = 0;
    h->at = h->used = 0;
    h->too_long = false;
    h->previous = -1;
    return CLT_OK;
}

static clt_status open_file(clt_history *h, const char *path)
{
    struct stat info;
    h->path = strdup(path);
    if (!h->path)
        CLT_FAIL(CLT_ENOMEM, "opening '%s': out of memory", path);
    if (clt_is_remote(path))
        return clt_open_read(path, CLT_EDATA, &h->fd, &info);
    h->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (h->fd < 0 || fstat(h->fd, &info) != 0)
        return clt_fail_errno(CLT_EDATA, errno, "opening '%s'", path);
    if (!S_ISREG(info.st_mode))
        CLT_FAIL(CLT_EDATA, "reading '%s': it is not a regular file", path);
    return CLT_OK;
}

clt_status clt_history_open(const char *path, clt_history **out)
{
    CLT_SCOPED(clt_history) *h = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&h, 1, sizeof *h, "the reader of a run's metrics"));
    h->fd = -1;
    CLT_TRY(open_file(h, path));
    CLT_TRY(clt_grow(&h->buffer, &h->capacity, CHUNK, 1, "a line of metrics"));
    CLT_TRY(first_pass(h));
    *out = CLT_TAKE(h);
    return CLT_OK;
}

void clt_history_close(clt_history *h)
{
    if (!h)
        return;
    if (h->fd >= 0)
        close(h->fd);
    free(h->path);
    free(h->buffer);
    free(h->rewinds);
    free(h);
}

/* True if the step is repeated later in the file. */
static bool is_replaced(clt_history *h, uint64_t at, const clt_metrics_line *line)
{
    while (h->rewind_at < h->rewind_count && h->rewinds[h->rewind_at].offset <= at)
        h->rewind_at++;
    return h->rewind_at < h->rewind_count && line->kind != CLT_LINE_EVENT &&
           line->step >= h->rewinds[h->rewind_at].step;
}

clt_status clt_history_next(clt_history *h, clt_metrics_line *line, const char **text, size_t *length,
                            bool *more)
{
    const char *raw;
    size_t size;
    uint64_t at;
    for (;;) {
        CLT_TRY(raw_line(h, &raw, &size, &at));
        *more = raw != NULL;
        if (!raw)
            return CLT_OK;
        if (size == 0)
            continue;
        clt_status status = clt_metrics_line_read(raw, size, line);
        if (status != CLT_OK && status != CLT_EDATA)
            return status;
        if (status == CLT_EDATA) {
            h->counts.garbage++;
            continue;
        }
        if (is_replaced(h, at, line)) {
            h->counts.replaced++;
            continue;
        }
        if (line->kind == CLT_LINE_STEP) {
            h->rewound = h->rewound || line->step <= h->previous;
            h->previous = line->step;
        }
        if (text)
            *text = raw;
        if (length)
            *length = size;
        return CLT_OK;
    }
}

const clt_history_counts *clt_history_counted(const clt_history *history)
{
    return &history->counts;
}

bool clt_history_is_stale(const clt_history *h)
{
    struct stat mine, there;
    if (clt_is_remote(h->path)) /* the address of a remote file is listed only once */
        return h->rewound;
    if (h->rewound || fstat(h->fd, &mine) != 0 || stat(h->path, &there) != 0)
        return true;
    return mine.st_dev != there.st_dev || mine.st_ino != there.st_ino ||
           (uint64_t)mine.st_size < h->counts.bytes;
}

/* --- finding the file that a user means --- */

/* The path from a folder to its run's metrics.jsonl. The folder's name tells whether it is the run folder,
 * its checkpoints/ or a checkpoint. */
static const char *way_to_metrics(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    const char *name = slash ? slash + 1 : folder;
    if (strcmp(name, "checkpoints") == 0)
        return "../metrics.jsonl";
    return strncmp(name, "step_", 5) == 0 ? "../../metrics.jsonl" : "metrics.jsonl";
}

static clt_status find_in_folder(const char *operand, char **path)
{
    CLT_FREED char *real = clt_path_real(operand), *joined = NULL;
    if (!real)
        return clt_fail_errno(errno == ENOMEM ? CLT_ENOMEM : CLT_EUSAGE, errno, "opening '%s'", operand);
    /* the run folder is shown as the user wrote it, which is shorter than its real path */
    const char *way = way_to_metrics(real);
    CLT_TRY(clt_path_join(way[0] == '.' ? real : operand, way, &joined));
    CLT_TRY(clt_remote_listed(joined));
    if (!clt_file_exists(joined))
        CLT_FAIL(CLT_EUSAGE,
                 "'%s' has no metrics.jsonl, so it is not a run folder, or nothing was trained in it yet; "
                 "give the folder that 'cltrain train' writes, such as runs/demo",
                 operand);
    *path = CLT_TAKE(joined);
    return CLT_OK;
}

static clt_status out_of_memory(const char *operand)
{
    CLT_FAIL(CLT_ENOMEM, "opening '%s': out of host memory", operand);
}

/* The run folder of a metrics.jsonl: its path without the path from the run folder to the file. */
static clt_status folder_of(const char *path, char **folder)
{
    CLT_FREED char *real = strstr(path, "/../") ? clt_path_real(path) : strdup(path);
    char *slash = real ? strrchr(real, '/') : NULL;
    if (slash)
        slash[slash == real] = '\0';
    *folder = slash ? strdup(real) : strdup(".");
    return *folder ? CLT_OK : out_of_memory(path);
}

clt_status clt_history_find(const char *operand, char **path, char **folder)
{
    *path = NULL;
    if (folder)
        *folder = NULL;
    CLT_TRY(clt_remote_found(operand, CLT_EUSAGE));
    if (clt_is_directory(operand)) {
        CLT_TRY(find_in_folder(operand, path));
    } else if (!clt_file_exists(operand)) {
        CLT_FAIL(CLT_EUSAGE, "there is no run '%s'; give a run folder, such as runs/demo", operand);
    } else if (!(*path = strdup(operand))) {
        return out_of_memory(operand);
    }
    clt_status status = folder ? folder_of(*path, folder) : CLT_OK;
    if (status != CLT_OK) {
        free(*path);
        *path = NULL;
    }
    return status;
}
