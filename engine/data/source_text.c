/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as bytes: the files are put one after the other, and sample i is the window of bytes that begins at
 * byte i (field x) with the byte that follows it (field y). The last part of the bytes is kept for evaluation
 * unless there are files for that. It knows nothing of characters or tokens. */
#include "engine/data/source_pair.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"

typedef struct text_file {
    const char *path;
    uint64_t begin, size; /* its bytes in the joined text */
} text_file;

typedef struct text_state {
    const char *key; /* config key that names the files */
    text_file *files;
    size_t n_files, files_capacity;
    char *bytes; /* all files, joined */
    size_t size, capacity;
    uint64_t begin, length; /* the part of this split */
    int64_t window;
} text_state;

static clt_status add_file(void *context, const char *path)
{
    clt_source *source = context;
    text_state *state = source->state;
    char *content = NULL;
    size_t size = 0;
    CLT_TRY(clt_refuse_folder(path, state->key));
    uint64_t limit = clt_memory_available();
    clt_status status = clt_file_read(path, true, limit ? limit : 1, CLT_EDATA, &content, &size);
    if (status != CLT_OK)
        return clt_fail_prefix(status, "opening the text of %s", state->key);
    if (size == 0)
        CLT_WARN("data: the text file '%s' is empty and adds nothing", path);
    CLT_TRY_GOTO(clt_grow(&state->files, &state->files_capacity, state->n_files + 1, sizeof *state->files,
                          "the list of text files"),
                 done);
    text_file *file = &state->files[state->n_files++];
    *file = (text_file){clt_arena_strdup(source->arena, path), state->size, size};
    if (!file->path)
        status = CLT_ENOMEM;
    if (status == CLT_OK && !state->bytes) { /* the usual case, one file, is not copied */
        state->bytes = content;
        state->size = size;
        state->capacity = size + 1; /* the file reader ends it with a NUL */
        return CLT_OK;
    }
    if (status == CLT_OK)
        status = clt_grow(&state->bytes, &state->capacity, state->size + size + 1, 1, "the joined text");
    if (status == CLT_OK) {
        memcpy(state->bytes + state->size, content, size);
        state->size += size;
    }
done:
    free(content);
    return status;
}

static clt_status load_files(clt_source *source, const clt_config *config, text_state *state)
{
    int count = clt_config_list_count(config, state->key);
    if (count == 0)
        CLT_FAIL(CLT_ECONFIG, "opening the text: %s names no file; give a path or a list of paths",
                 state->key);
    for (int i = 0; i < count; i++) {
        const char *path = clt_config_list_string(config, state->key, i);
        if (!path[0] || strcmp(path, "@") == 0)
            CLT_FAIL(CLT_ECONFIG, "opening the text: path %d of %s is empty; name a file", i + 1, state->key);
        CLT_TRY(clt_text_paths(path, state->key, add_file, source));
    }
    return CLT_OK;
}

/* "'a.txt', 'b.txt' and 3 more" */
static const char *file_names(clt_source *source, const text_state *state)
{
    clt_str names = {0};
    size_t shown = state->n_files < 4 ? state->n_files : 3;
    for (size_t i = 0; i < shown; i++)
        clt_str_printf(&names, "%s'%s'", i ? ", " : "", state->files[i].path);
    if (shown < state->n_files)
        clt_str_printf(&names, " and %zu more", state->n_files - shown);
    const char *kept = clt_str_check(&names) == CLT_OK ? clt_arena_strdup(source->arena, names.text) : NULL;
    clt_str_free(&names);
    return kept;
}

static clt_status choose_part(const clt_config *config, clt_split split, text_state *state, const char *names)
{
    if (state->size == 0)
        CLT_FAIL(
            CLT_EDATA,
            "opening the text: there is not a single byte in %s (%s); give a text of more than %lld bytes",
            names, state->key, (long long)state->window);
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    double part = own_eval ? 0.0 : clt_config_float(config, "data.split");
    uint64_t train = (uint64_t)((double)state->size * (1.0 - part));
    if (train > state->size)
        train = state->size;
    bool rest = split == CLT_SPLIT_EVAL && !own_eval;
    state->begin = rest ? train : 0;
    state->length = rest ? state->size - train : train;
    if (state->length > (uint64_t)state->window)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "opening the text: %llu bytes in %s are too short: the %s part (data.split %g) has %llu bytes, "
             "a window of %lld bytes "
             "(data.window) and the byte that follows need %lld; give more text or a smaller window",
             (unsigned long long)state->size, names, split == CLT_SPLIT_EVAL ? "evaluation" : "training",
             part, (unsigned long long)state->length, (long long)state->window, (long long)state->window + 1);
}

static clt_status set_fields(clt_source *source, const text_state *state, const char *names)
{
    uint8_t most = 0;
    for (size_t i = 0; i < state->size; i++)
        if ((uint8_t)state->bytes[i] > most)
            most = (uint8_t)state->bytes[i];
    source->samples = (int64_t)state->length - state->window;
    source->bytes = (int64_t)state->length;
    source->n_fields = 2;
    source->fields[0] = (clt_source_field){"x", CLT_U8, clt_shape1(state->window), true, most};
    source->fields[1] = (clt_source_field){"y", CLT_U8, {.ndim = 0}, true, most};
    source->description = clt_arena_printf(
        source->arena,
        "text: %lld windows of %lld bytes, each with the byte that follows, in %llu of %llu bytes of %s",
        (long long)source->samples, (long long)state->window, (unsigned long long)state->length,
        (unsigned long long)state->size, names);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static clt_status text_open(clt_source *source, const clt_config *config, clt_split split)
{
    text_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    if (split == CLT_SPLIT_EVAL && !clt_source_has_eval(config))
        CLT_FAIL(CLT_ECONFIG,
                 "opening the evaluation text: data.eval_path is empty and data.split is 0; set one of them");
    state->key = split == CLT_SPLIT_EVAL && own_eval ? "data.eval_path" : "data.path";
    state->window = clt_config_int(config, "data.window");
    if (state->window < 1)
        CLT_FAIL(CLT_ECONFIG, "opening the text: data.window is %lld; a window has at least 1 byte",
                 (long long)state->window);
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(load_files(source, config, state));
    const char *names = file_names(source, state);
    if (!names)
        return CLT_ENOMEM;
    CLT_TRY(choose_part(config, split, state, names));
    return set_fields(source, state, names);
}

static void text_close(clt_source *source)
{
    text_state *state = source->state;
    if (!state)
        return;
    free(state->bytes);
    free(state->files);
}

static clt_status text_read(const clt_source *source, int64_t index, int field, void *dst)
{
    const text_state *state = source->state;
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading window %lld of a text with %lld windows", (long long)index,
                 (long long)source->samples);
    const char *window = state->bytes + state->begin + (uint64_t)index;
    if (field == 0)
        memcpy(dst, window, (size_t)state->window);
    else
        memcpy(dst, window + state->window, 1);
    return CLT_OK;
}

static void text_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const text_state *state = source->state;
    uint64_t at = state->begin + (uint64_t)index + (field == 0 ? 0 : (uint64_t)state->window);
    for (size_t i = 0; i < state->n_files; i++) {
        const text_file *file = &state->files[i];
        if (at >= file->begin && at - file->begin < file->size) {
            clt_str_printf(out, "'%s', window %lld (from byte %llu on)", file->path, (long long)index,
                           (unsigned long long)(at - file->begin));
            return;
        }
    }
}

const clt_source_type clt_source_text = {
    .name = "text",
    .help = "bytes of text files (a path, a list, or \"@LIST\" for a file of paths): a window and the byte "
            "that follows",
    .open = text_open,
    .close = text_close,
    .read = text_read,
    .locate = text_locate,
};
