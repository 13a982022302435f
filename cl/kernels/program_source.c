/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources of programs: embedded in the binary, or read from CLTRAIN_KERNEL_DIR during development. Includes
 * are resolved here, so that a driver's cache cannot miss a change. This file must not know what a kernel
 * computes. */
#include "cl/kernels/program_source.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/kernels/kernel_source.h"
#include "engine/base/hash.h"
#include "engine/files/fileio.h"

#define MAX_INCLUDE_DEPTH 8

/* The embedded file of this name, or NULL if there is none. */
static const ocl_embedded_source *embedded(const char *file_name)
{
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++)
        if (strcmp(s->name, file_name) == 0)
            return s;
    return NULL;
}

/* One file's text, its includes not resolved; free() it. */
static clt_status raw_source(const char *file_name, char **out)
{
    const char *folder = getenv("CLTRAIN_KERNEL_DIR");
    if (folder != NULL && folder[0] != '\0') {
        char *path = NULL;
        clt_status status = CLT_OK;
        CLT_TRY(clt_path_join(folder, file_name, &path));
        bool exists = clt_file_exists(path);
        size_t size;
        if (exists)
            status = clt_file_read(path, false, 0, CLT_EBUILD, out, &size);
        free(path);
        if (exists)
            return status;
    }
    const ocl_embedded_source *s = embedded(file_name);
    if (s != NULL) {
        CLT_TRY(clt_alloc(out, s->length + 1, 1, "a kernel source"));
        memcpy(*out, s->text, s->length);
        return CLT_OK;
    }
    CLT_FAIL(CLT_EBUILD, "looking for the kernel source '%s': it is not built in%s%s", file_name,
             folder ? " and not in CLTRAIN_KERNEL_DIR=" : "", folder ? folder : "");
}

/* Extracts the name from `#include "name"`; false if the line is something else. */
static bool parse_include(const char *line, size_t length, char *name, size_t size)
{
    const char *end = line + length, *at = line;
    while (at < end && isspace((unsigned char)*at))
        at++;
    if (at == end || *at++ != '#')
        return false;
    while (at < end && isspace((unsigned char)*at))
        at++;
    if (end - at < 7 || strncmp(at, "include", 7) != 0)
        return false;
    at += 7;
    while (at < end && isspace((unsigned char)*at))
        at++;
    if (at == end || *at++ != '"')
        return false;
    const char *close = memchr(at, '"', (size_t)(end - at));
    if (close == NULL || (size_t)(close - at) >= size)
        return false;
    memcpy(name, at, (size_t)(close - at));
    name[close - at] = '\0';
    return true;
}

size_t ocl_source_length(const char *family)
{
    char name[128];
    snprintf(name, sizeof name, "%s.cl", family);
    const ocl_embedded_source *source = embedded(name);
    size_t length = source ? source->length : 0;
    for (const char *line = source ? source->text : ""; *line != '\0';) {
        size_t width = strcspn(line, "\n");
        if (parse_include(line, width, name, sizeof name) && strncmp(name, family, strlen(family)) == 0) {
            const ocl_embedded_source *part = embedded(name);
            length += part ? part->length : 0;
        }
        line += width + (line[width] == '\n');
    }
    return length;
}

static clt_status expand(clt_str *out, const char *file_name, int depth)
{
    char *text = NULL;
    clt_status status = CLT_OK;
    if (depth > MAX_INCLUDE_DEPTH)
        CLT_FAIL(CLT_EBUILD,
                 "reading the kernel source '%s': includes are nested more than %d deep (a cycle?)",
                 file_name, MAX_INCLUDE_DEPTH);
    CLT_TRY(raw_source(file_name, &text));
    int number = 1;
    clt_str_printf(out, "#line 1 \"%s\"\n", file_name);
    for (const char *line = text; *line != '\0'; number++) {
        size_t length = strcspn(line, "\n");
        char name[128];
        if (parse_include(line, length, name, sizeof name)) {
            status = expand(out, name, depth + 1);
            if (status != CLT_OK) {
                clt_fail_prefix(status, "%s:%d: ", file_name, number);
                break;
            }
            clt_str_printf(out, "#line %d \"%s\"\n", number + 1, file_name);
        } else {
            clt_str_append_n(out, line, length);
            clt_str_append(out, "\n");
        }
        line += length + (line[length] == '\n');
    }
    free(text);
    return status;
}

clt_status ocl_source_text(const char *file_name, char **out)
{
    clt_str text = {0};
    *out = NULL;
    clt_status status = expand(&text, file_name, 0);
    if (status == CLT_OK)
        status = clt_str_check(&text);
    if (status != CLT_OK) {
        clt_str_free(&text);
        return status;
    }
    *out = text.text;
    return CLT_OK;
}

/* --- one kernel of a text --- */

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The end of the first occurrence of `word` (`length` bytes) as a whole word between `from` and `to`, or
 * NULL. */
static const char *find_word(const char *from, const char *to, const char *word, size_t length)
{
    while (from < to) {
        size_t n = 0;
        while (from + n < to && in_word(from[n]))
            n++;
        if (n == length && memcmp(from, word, n) == 0)
            return from + n;
        from += n ? n : 1;
    }
    return NULL;
}

static const char *end_of_line(const char *line)
{
    return line + strcspn(line, "\n");
}

static const char *next_line(const char *line)
{
    line = end_of_line(line);
    return line + (*line != '\0');
}

#define KERNEL_WORD "__kernel"
#define MAX_KERNEL_WORDS 16

/* The words that begin a kernel: __kernel, and the macros without parameters that contain it. */
typedef struct kernel_words {
    const char *word[MAX_KERNEL_WORDS];
    size_t length[MAX_KERNEL_WORDS];
    int count;
} kernel_words;

static void learn_macro(kernel_words *words, const char *line)
{
    static const char define[] = "#define ";
    if (strncmp(line, define, sizeof define - 1) != 0)
        return;
    const char *name = line + sizeof define - 1, *end = name;
    while (in_word(*end))
        end++;
    if (*end != ' ' || !find_word(end, end_of_line(line), KERNEL_WORD, sizeof KERNEL_WORD - 1) ||
        words->count == MAX_KERNEL_WORDS)
        return;
    words->word[words->count] = name;
    words->length[words->count++] = (size_t)(end - name);
}

static bool is_kernel(const kernel_words *words, const char *head, const char *end)
{
    for (int i = 0; i < words->count; i++)
        if (find_word(head, end, words->word[i], words->length[i]) != NULL)
            return true;
    return false;
}

/* The end of the definition that begins at `line`, if it is of a kernel other than `kernel`; else NULL. */
static const char *other_kernel(const kernel_words *words, const char *line, const char *kernel)
{
    const char *body = line;
    if (!in_word(*line))
        return NULL;
    while (in_word(*body) || (*body != '\0' && strchr(" #)", *body))) /* the head may have several lines */
        body = next_line(body);
    const char *name = find_word(line, body, kernel, strlen(kernel));
    if (strncmp(body, "{\n", 2) != 0 || memchr(line, ';', (size_t)(body - line)) != NULL ||
        (name != NULL && *name == '(') || !is_kernel(words, line, end_of_line(line)))
        return NULL;
    while (*body != '}' && *body != '\0')
        body = next_line(body);
    return next_line(body);
}

/* Overwrites the lines from `line` to `end` with spaces, except macros, which later kernels may use, too. */
static void blank(char *line, const char *end)
{
    bool kept = false, continued = false;
    while (line < end) {
        size_t length = strcspn(line, "\n");
        if (!continued)
            kept = line[0] == '#' && strncmp(line, "#pragma", strlen("#pragma")) != 0;
        continued = length > 0 && line[length - 1] == '\\';
        if (!kept)
            memset(line, ' ', length);
        line += length + 1;
    }
}

void ocl_source_keep_kernel(char *text, const char *kernel)
{
    kernel_words words = {{KERNEL_WORD}, {sizeof KERNEL_WORD - 1}, 1};
    for (char *line = text; *line != '\0';) {
        const char *end = other_kernel(&words, line, kernel);
        if (end != NULL)
            blank(line, end);
        else
            learn_macro(&words, line);
        line = text + ((end ? end : next_line(line)) - text);
    }
}

/* Options */

/* Whether a line of the text that begins with #if contains the word. */
static bool asks_for(const char *text, const char *word, size_t length)
{
    for (const char *line = text; *line != '\0'; line = next_line(line))
        if (strncmp(line, "#if", 3) == 0 && find_word(line, end_of_line(line), word, length) != NULL)
            return true;
    return false;
}

clt_status ocl_source_check_options(const char *family, const char *text, const char *options)
{
    for (const char *at = options; (at = strstr(at, "-D")) != NULL;) {
        const char *name = at + 2;
        size_t length = strcspn(name, "= ");
        bool word = length > 0 && (at == options || at[-1] == ' ');
        bool only = length == strlen(OCL_ONLY_DEFINE) && strncmp(name, OCL_ONLY_DEFINE, length) == 0;
        at = name + length;
        if (word && !only && !asks_for(text, name, length))
            CLT_FAIL(CLT_EINTERNAL, "building '%s': its kernels have no option '%.*s'%s", family, (int)length,
                     name,
                     strstr(text, "#pragma option") == NULL
                         ? ""
                         : "; the kernels come from a source tree: set CLTRAIN_KERNEL_DIR to kernels/ of a "
                           "build folder");
    }
    return CLT_OK;
}

clt_status ocl_kernels_hash(uint64_t *hash)
{
    clt_hash64_state state;
    clt_hash64_begin(&state);
    clt_hash64_add(&state, CLT_VERSION, strlen(CLT_VERSION) + 1);
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++) {
        char *text = NULL;
        CLT_TRY(raw_source(s->name, &text));
        clt_hash64_add(&state, s->name, strlen(s->name) + 1);
        clt_hash64_add(&state, text, strlen(text) + 1);
        free(text);
    }
    *hash = clt_hash64_end(&state);
    return CLT_OK;
}
