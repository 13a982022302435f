/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects text from well-known folders in a fixed order, so that a machine always gives the same text. */
#include "cli/data/demo_text.h"

#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/files/fileio.h"

#define LEAST_BYTES 100000u /* less is too little for a demonstration */
#define FILE_MIN 200        /* bytes; smaller files are ignored */
#define FILE_MAX 200000     /* bytes; larger files are more often tables than text */
#define MAX_DEPTH 6

typedef struct demo_place {
    const char *folder, *pattern;
    int depth; /* levels of subfolders; 0: only the folder itself */
    int share; /* the place gives at most this percentage of the limit */
} demo_place;

/* Prose comes first, since samples of it are easier to judge than samples of code. */
static const demo_place places[] = {
    {"/usr/share/common-licenses", "*", 0, 40},    {"/usr/share/doc", "copyright", 1, 50},
    {"/usr/share/doc", "*.txt", MAX_DEPTH, 40},    {"/usr/share/vim", "*.txt", MAX_DEPTH, 40},
    {"/usr/share/perl", "*.pod", MAX_DEPTH, 40},   {"/usr/lib/python3", "*.py", MAX_DEPTH, 40},
    {"/usr/share/perl", "*.p[ml]", MAX_DEPTH, 20}, {"/usr/include", "*.h", MAX_DEPTH, 40},
};

typedef struct search {
    demo_text *text;
    const demo_place *place;
    size_t budget; /* bytes that may still be taken from this place */
    size_t taken;
    int files;
} search;

/* True for plain ASCII text; anything else would be noise for the model. */
static bool is_text(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x7f || (c < 0x20 && c != '\n' && c != '\t' && c != '\r' && c != '\f'))
            return false;
    }
    return true;
}

static clt_status add_file(search *s, const char *path, const char *data, size_t size)
{
    demo_text *t = s->text;
    bool eval = (t->n_train + t->n_eval) % 10 == 9;
    CLT_FREED char *copy = strdup(path);
    if (!copy)
        CLT_FAIL(CLT_ENOMEM, "looking for text: out of host memory");
    CLT_TRY(eval ? clt_grow(&t->eval, &t->eval_capacity, t->n_eval + 1, sizeof *t->eval, "file names")
                 : clt_grow(&t->train, &t->train_capacity, t->n_train + 1, sizeof *t->train, "file names"));
    if (eval)
        t->eval[t->n_eval++] = CLT_TAKE(copy);
    else
        t->train[t->n_train++] = CLT_TAKE(copy);
    for (size_t i = 0; i < size; i++)
        (eval ? t->eval_count : t->train_count)[(unsigned char)data[i]]++;
    *(eval ? &t->eval_bytes : &t->train_bytes) += size;
    s->taken += size;
    s->budget -= size;
    s->files++;
    return CLT_OK;
}

static clt_status try_file(search *s, const char *path, const char *name, const struct stat *info)
{
    CLT_FREED char *data = NULL;
    size_t size = 0;
    if (fnmatch(s->place->pattern, name, 0) != 0 || info->st_size < FILE_MIN || info->st_size > FILE_MAX ||
        (size_t)info->st_size > s->budget)
        return CLT_OK;
    if (clt_file_read(path, false, FILE_MAX, CLT_EDATA, &data, &size) != CLT_OK)
        return CLT_OK; /* not readable: text from other places is used */
    return size > 0 && size <= s->budget && is_text(data, size) ? add_file(s, path, data, size) : CLT_OK;
}

static clt_status walk(search *s, const char *folder, int depth)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    clt_status status = CLT_OK;
    for (int i = 0; i < count; i++) {
        struct stat info;
        char *path = NULL;
        if (status == CLT_OK && entries[i]->d_name[0] != '.' && s->budget > FILE_MIN)
            status = clt_path_join(folder, entries[i]->d_name, &path);
        /* links are ignored, because they would lead to the same text twice */
        if (path && lstat(path, &info) == 0) {
            if (S_ISREG(info.st_mode))
                status = try_file(s, path, entries[i]->d_name, &info);
            else if (S_ISDIR(info.st_mode) && depth > 0)
                status = walk(s, path, depth - 1);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static void note_folder(demo_text *t, const char *folder, const search *s)
{
    int at = 0;
    while (at < t->n_folders && strcmp(t->folder[at], folder) != 0)
        at++;
    t->n_folders += at == t->n_folders;
    t->folder[at] = folder;
    t->folder_files[at] += s->files;
    t->folder_bytes[at] += s->taken;
}

clt_status demo_text_find(size_t limit, demo_text *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        size_t have = out->train_bytes + out->eval_bytes, share = limit / 100 * (size_t)places[i].share;
        search s = {.text = out, .place = &places[i]};
        s.budget = limit - have < share ? limit - have : share;
        CLT_TRY(walk(&s, places[i].folder, places[i].depth));
        if (s.files > 0)
            note_folder(out, places[i].folder, &s);
    }
    if (out->train_bytes + out->eval_bytes < LEAST_BYTES || out->n_eval == 0)
        CLT_FAIL(CLT_EDATA,
                 "looking for text: only %zu bytes found in /usr/share/common-licenses, /usr/include, "
                 "/usr/share/doc and the like; train on your own text instead: cltrain train "
                 "configs/gpt-shakespeare-cpu.json data.path=FILE",
                 out->train_bytes + out->eval_bytes);
    return CLT_OK;
}

void demo_text_free(demo_text *text)
{
    for (size_t i = 0; i < text->n_train; i++)
        free(text->train[i]);
    for (size_t i = 0; i < text->n_eval; i++)
        free(text->eval[i]);
    free(text->train);
    free(text->eval);
    memset(text, 0, sizeof *text);
}

double demo_text_unigram(const demo_text *text)
{
    double nats = 0;
    for (int c = 0; c < 256; c++)
        if (text->eval_count[c] > 0) {
            /* every count is raised by 1, so that bytes that the training text does not contain have a
             * probability above 0 */
            double p = ((double)text->train_count[c] + 1) / ((double)text->train_bytes + 256);
            nats -= (double)text->eval_count[c] / (double)text->eval_bytes * log(p);
        }
    return nats;
}
