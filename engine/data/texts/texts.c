/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files into a list of documents: copies small files, maps large ones and unpacks gzip files. Each
 * record of JSON Lines or of a list of JSON becomes a document. */
#include "engine/data/texts/texts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/texts/characters.h"
#include "engine/data/texts/text_paths.h"
#include "engine/files/file_kind.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"
#include "engine/json/json.h"
#include "engine/json/json_walk.h"

#define MAPPED_ABOVE ((off_t)1 << 20) /* bytes */

/* --- the standard input --- */

static struct {
    pthread_mutex_t mutex;
    bool read;
    char *bytes;
    size_t size;
} standard_input = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The text stays in memory until the process ends, since "-" may be named again. */
static clt_status read_standard_input(const char **bytes, size_t *size)
{
    clt_status status = CLT_OK;
    pthread_mutex_lock(&standard_input.mutex);
    if (!standard_input.read)
        status = clt_stdin_read_data(CLT_EDATA, &standard_input.bytes, &standard_input.size);
    standard_input.read = standard_input.read || status == CLT_OK;
    *bytes = standard_input.bytes;
    *size = standard_input.size;
    pthread_mutex_unlock(&standard_input.mutex);
    return status;
}

/* --- files --- */

/* Small files are read instead of mapped, since the number of mappings of a process is limited. */
static clt_status load_file(clt_text_file *file, const char **bytes, size_t *size)
{
    struct stat info;
    if (clt_file_stat(file->path, &info) && S_ISREG(info.st_mode) && info.st_size <= MAPPED_ABOVE) {
        CLT_TRY(clt_file_read(file->path, false, 0, CLT_EDATA, &file->content, size));
        *bytes = file->content;
        return CLT_OK;
    }
    CLT_TRY(clt_map_open(file->path, CLT_EDATA, &file->mapping));
    *bytes = (const char *)file->mapping.data;
    *size = file->mapping.size;
    return CLT_OK;
}

static clt_status read_file(const clt_texts *t, clt_text_file *file, const char **bytes, size_t *size)
{
    if (strcmp(file->path, "-") == 0 && t->read_again)
        CLT_FAIL(CLT_ECONFIG,
                 "- is the standard input, which can be read only once; evaluation, resuming and other "
                 "processes of the run read the text again: put it into a file, or make shards of it with "
                 "'cltrain data prepare - --out FOLDER'");
    if (strcmp(file->path, "-") == 0)
        return read_standard_input(bytes, size);
    CLT_TRY(load_file(file, bytes, size));
    if (!clt_is_gzip(*bytes, *size))
        return CLT_OK;
    clt_map_close(&file->mapping);
    free(file->content);
    file->content = NULL;
    CLT_TRY(clt_file_read_data(file->path, 0, CLT_EDATA, &file->content, size));
    *bytes = file->content;
    return CLT_OK;
}

static clt_status add_document(clt_texts *t, const char *bytes, size_t size, bool record)
{
    if (size == 0)
        return CLT_OK;
    CLT_TRY(clt_grow(&t->documents, &t->documents_capacity, t->n_documents + 1, sizeof *t->documents,
                     "the list of texts"));
    t->documents[t->n_documents++] = (clt_document){bytes, t->total, size, t->n_files - 1, .record = record};
    t->total += size;
    return CLT_OK;
}

clt_status clt_texts_document(clt_texts *t, const char *bytes, size_t size, int64_t part)
{
    CLT_TRY(add_document(t, bytes, size, true));
    if (size > 0)
        t->documents[t->n_documents - 1].part = part;
    return CLT_OK;
}

/* --- JSON Lines, lists of JSON --- */

/* The next line that is not blank; false at the end. */
static bool next_line(const char **at, const char *end, const char **line, size_t *size, int64_t *number)
{
    while (*at < end) {
        const char *newline = memchr(*at, '\n', (size_t)(end - *at));
        *line = *at;
        *size = (size_t)((newline ? newline : end) - *at);
        *at = newline ? newline + 1 : end;
        ++*number;
        for (size_t i = 0; i < *size; i++)
            if (!strchr(" \t\r", (*line)[i]) || !(*line)[i])
                return true;
    }
    return false;
}

/* The records of a text: its lines or, if the text is a list of JSON, the entries of the list. */
typedef struct records {
    clt_json_walk walk;
    bool listed;
    int64_t number; /* number of the newest line or entry, counted from 1 */
} records;

static records records_of(const char *bytes, size_t size)
{
    return (records){.walk = {bytes, bytes, bytes + size, ", as in a list of records"},
                     .listed = clt_json_starts_list(bytes, size)};
}

/* Finds the next record; *size 0: there are no more. */
static clt_status next_record(records *r, const char **record, size_t *size)
{
    bool more;
    if (!r->listed) {
        if (!next_line(&r->walk.at, r->walk.end, record, size, &r->number))
            *size = 0;
        return CLT_OK;
    }
    *size = 0;
    if (r->number == 0)
        CLT_TRY(clt_json_walk_expect(&r->walk, '[', "a list"));
    CLT_TRY(clt_json_walk_entry(&r->walk, ']', r->number == 0, &more));
    if (!more) {
        bool end = clt_json_walk_peek(&r->walk) == '\0' && r->walk.at == r->walk.end;
        return end ? CLT_OK : clt_json_walk_fault(&r->walk, "the end of the file");
    }
    (void)clt_json_walk_peek(&r->walk);
    *record = r->walk.at;
    CLT_TRY(clt_json_walk_value(&r->walk));
    *size = (size_t)(r->walk.at - *record);
    r->number++;
    return CLT_OK;
}

/* True if the line is a complete JSON object. */
static bool is_object(const char *line, size_t size)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    bool parsed = line[0] == '{' && clt_json_parse(line, size, "", CLT_EDATA, &doc) == CLT_OK;
    clt_error_clear();
    return parsed && clt_json_typeof(clt_json_root(doc)) == CLT_JSON_OBJECT;
}

/* Refuses text whose first two lines, or the first entry of a list, are JSON objects. A text with a single
 * such line is accepted: it may be any text in braces. */
static clt_status refuse_records(const clt_texts *t, const char *bytes, size_t size)
{
    records r = records_of(bytes, size);
    const char *record;
    size_t length;
    for (int seen = 0; seen < (r.listed ? 1 : 2); seen++)
        if (next_record(&r, &record, &length) != CLT_OK || length == 0 || !is_object(record, length)) {
            clt_error_clear();
            return CLT_OK;
        }
    CLT_FAIL(CLT_EDATA,
             "it looks like %s, whose braces and names would become text; name the member that holds "
             "the text with %s, such as %s%s%s",
             r.listed ? "a list of JSON" : "JSON Lines", t->json_option, "text",
             t->plain_option ? "; or take it as it stands with " : "",
             t->plain_option ? t->plain_option : "");
}

static clt_status no_member(const clt_texts *t, const clt_json *root)
{
    CLT_SCOPED(clt_str) names = {0};
    for (const clt_json *one = clt_json_first(root); one && names.length < 200; one = clt_json_next(one))
        clt_str_printf(&names, "%s%.60s", names.length ? ", " : "", clt_json_key(one));
    CLT_TRY(clt_str_check(&names));
    CLT_FAIL(CLT_EDATA, "it has no member \"%s\" (%s), but: %s", t->json_key, t->json_option,
             names.length ? names.text : "none");
}

static clt_status read_record(const clt_texts *t, const char *line, size_t size, clt_str *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    const clt_json *root;
    CLT_TRY(clt_json_record(line, size, &doc, &root));
    const clt_json *value = clt_json_get(root, t->json_key);
    if (!value)
        return no_member(t, root);
    if (clt_json_typeof(value) != CLT_JSON_STRING)
        CLT_FAIL(CLT_EDATA, "its member \"%s\" is %s, and a text is a string", t->json_key,
                 clt_json_type_name(clt_json_typeof(value)));
    clt_str_append(out, clt_json_string(value));
    return clt_str_check(out);
}

/* Adds each record as a document; the joined texts of the records replace the content of the file. */
static clt_status add_records(clt_texts *t, const char *bytes, size_t size)
{
    CLT_SCOPED(clt_str) all = {0};
    CLT_FREED size_t *ends = NULL;
    clt_text_file *file = &t->files[t->n_files - 1];
    size_t count = 0, capacity = 0, length;
    records r = records_of(bytes, size);
    const char *record;
    for (;;) {
        CLT_TRY(next_record(&r, &record, &length));
        if (length == 0)
            break;
        CLT_TRY(clt_fail_prefix(read_record(t, record, length, &all), "%s %lld", r.listed ? "record" : "line",
                                (long long)r.number));
        CLT_TRY(clt_grow(&ends, &capacity, count + 1, sizeof *ends, "the list of records"));
        ends[count++] = all.length;
    }
    CLT_TRY(clt_map_check_one(&file->mapping));
    clt_map_close(&file->mapping);
    free(file->content);
    file->content = CLT_TAKE(all.text);
    for (size_t i = 0, begin = 0; i < count; begin = ends[i++])
        CLT_TRY(add_document(t, file->content + begin, ends[i] - begin, true));
    return CLT_OK;
}

/* Adds each line, or each entry of a list, as a document; for a file in another form, adds the documents
 * that `cut` finds. */
static clt_status add_lines(clt_texts *t, const char *bytes, size_t size)
{
    clt_text_file *file = &t->files[t->n_files - 1];
    const char *record;
    size_t length;
    if (t->cut)
        CLT_TRY(t->cut(t, bytes, size));
    if (file->form != 0)
        return CLT_OK;
    records r = records_of(bytes, size);
    file->listed = r.listed;
    for (;;) {
        CLT_TRY(next_record(&r, &record, &length));
        if (length == 0)
            return CLT_OK;
        CLT_TRY(clt_texts_document(t, record, length, r.listed ? r.number - 1 : 0));
    }
}

static clt_status check_and_add(clt_texts *t, const char *bytes, size_t size, bool *other)
{
    CLT_TRY(clt_refuse_no_text(bytes, size, CLT_EDATA, other));
    /* a byte order mark is not part of a JSON text */
    size_t mark = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (t->lines)
        return add_lines(t, bytes + mark, size - mark);
    if (*t->json_key)
        return add_records(t, bytes + mark, size - mark);
    if (!t->any_lines)
        CLT_TRY(refuse_records(t, bytes + mark, size - mark));
    return add_document(t, bytes, size, false);
}

/* Reads the newest file. *other: whether it is refused because it is not text. */
static clt_status read_text(clt_texts *t, bool *other)
{
    clt_text_file *file = &t->files[t->n_files - 1];
    const char *bytes = "";
    size_t size = 0;
    CLT_TRY(clt_fail_prefix(read_file(t, file, &bytes, &size), "opening the text of %s", t->key));
    return clt_fail_prefix(check_and_add(t, bytes, size, other), "reading '%s' (%s)", file->path, t->key);
}

static void free_file(clt_text_file *file)
{
    clt_map_close(&file->mapping);
    free(file->content);
    free(file->about);
    free(file->path);
    *file = (clt_text_file){0};
}

typedef struct adding {
    clt_texts *texts;
    size_t left_out; /* number of the group's files so far that are not text */
    clt_error error; /* the error of the first file that is not text */
} adding;

/* Skips the newest file, because it is not text; fails if most files of its folder or pattern are not
 * text. */
static clt_status leave_out(adding *a, clt_status failure, const clt_text_group *group)
{
    clt_texts *t = a->texts;
    clt_error again;
    clt_error_take(failure, a->left_out++ == 0 ? &a->error : &again);
    free_file(&t->files[--t->n_files]);
    if (2 * a->left_out <= group->count)
        return CLT_OK;
    return clt_fail_prefix(clt_error_put(&a->error), "more than half of the %zu files of '%s' are not text",
                           group->count, group->name);
}

static clt_status add_file(void *context, const char *path, const clt_text_group *group)
{
    adding *a = context;
    clt_texts *t = a->texts;
    uint64_t before = t->total;
    bool other = false;
    if (group && group->index == 0)
        a->left_out = 0;
    CLT_TRY(clt_grow(&t->files, &t->files_capacity, t->n_files + 1, sizeof *t->files, "the list of texts"));
    clt_text_file *file = &t->files[t->n_files++];
    *file = (clt_text_file){.path = strdup(path)};
    if (!file->path)
        CLT_FAIL(CLT_ENOMEM, "listing the texts: out of host memory");
    clt_status status = read_text(t, &other);
    if (status != CLT_OK && other && group)
        CLT_TRY(leave_out(a, status, group));
    else
        CLT_TRY(status);
    if (group && group->index + 1 == group->count && a->left_out > 0)
        CLT_WARN_ONCE("data: %zu of %zu files of '%s' %s skipped, because %s not text; the first: %s",
                      a->left_out, group->count, group->name, a->left_out == 1 ? "is" : "are",
                      a->left_out == 1 ? "it is" : "they are", a->error.text);
    if (other)
        return CLT_OK;
    t->files[t->n_files - 1].bytes = t->total - before;
    if (t->total == before)
        CLT_WARN_ONCE("data: the text file '%s' is empty and adds nothing", path);
    return CLT_OK;
}

clt_status clt_texts_add(clt_texts *t, const char *entry)
{
    CLT_FREED adding *a = NULL;
    CLT_TRY(clt_alloc(&a, 1, sizeof *a, "the list of texts"));
    a->texts = t;
    return clt_text_paths(entry, t->key, add_file, a);
}

clt_status clt_texts_check(const clt_texts *t)
{
    for (size_t i = 0; i < t->n_files; i++)
        CLT_TRY(clt_map_check_one(&t->files[i].mapping));
    return CLT_OK;
}

int64_t clt_document_line(const clt_texts *t, const clt_document *document)
{
    const clt_text_file *file = &t->files[document->file];
    const char *at = file->content ? file->content : (const char *)file->mapping.data;
    int64_t line = 1;
    while ((at = memchr(at, '\n', (size_t)(document->bytes - at))) != NULL) {
        line++;
        at++;
    }
    return line;
}

void clt_texts_free(clt_texts *t)
{
    for (size_t i = 0; i < t->n_files; i++)
        free_file(&t->files[i]);
    free(t->files);
    free(t->documents);
    *t = (clt_texts){0};
}

/* --- parts --- */

const char *clt_document_part(const clt_document *d, uint64_t from, uint64_t to, size_t *size)
{
    uint64_t low = from > d->begin ? from - d->begin : 0, high = to > d->begin ? to - d->begin : 0;
    high = high < d->size ? high : d->size;
    *size = high > low ? (size_t)(high - low) : 0;
    return d->bytes + (low < d->size ? low : d->size);
}

uint64_t clt_texts_cut(const clt_texts *t, uint64_t at)
{
    if (at >= t->total)
        return t->total;
    const clt_document *d = &t->documents[CLT_LAST_AT_MOST(t->n_documents, t->documents[i].begin, at)];
    if (d->record)
        return d->begin;
    for (int i = 0; i < 3 && at > d->begin && ((uint8_t)d->bytes[at - d->begin] & 0xc0) == 0x80; i++)
        at--;
    return at;
}

void clt_texts_warn_bytes(const clt_texts *t)
{
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < t->n_documents; i++) {
        const clt_document *d = &t->documents[i];
        size_t valid = d->file == last ? (size_t)d->size : clt_utf8_valid(d->bytes, (size_t)d->size);
        if (valid == d->size)
            continue;
        last = d->file;
        CLT_WARN_ONCE(
            "data: '%s' is not UTF-8 from byte %zu on; its bytes are taken as they are. For another "
            "encoding, convert the file first (iconv -t UTF-8)",
            t->files[d->file].path, valid + 1);
    }
}
