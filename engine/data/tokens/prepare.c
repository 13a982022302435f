/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes text files into token shards. Files are written to a temporary folder beside the final one,
 * which is renamed at the end, so that an interrupted run leaves nothing that looks complete. */
#include "engine/data/tokens/prepare.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/tokenizer/bpe_train.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/data/tokens/pair_file.h"
#include "engine/data/tokens/sentence_pairs.h"
#include "engine/data/tokens/token_writer.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"
#include "engine/json/json.h"

#define COUNT_PIECE ((size_t)4 << 20) /* bytes between two reports of progress while words are counted */

typedef struct preparation {
    const clt_prepare_options *options;
    clt_prepare_result *result;
    clt_texts texts;
    uint64_t train; /* size of the joined text's training part, in bytes */
    clt_tokenizer *tokenizer;
    clt_token_writer *train_writer, *val_writer, *writer; /* writer: the one of the two that is in use */
    /* the temporary folder in which the result is written */
    clt_str partial;
    const char *stage;
    double stage_began;
    uint64_t done; /* bytes of the stage that are finished */
} preparation;

static clt_status tell(preparation *p, uint64_t done, uint64_t total)
{
    clt_prepare_progress progress = {.stage = p->stage, .done = done, .total = total};
    progress.tokens = p->writer ? clt_token_writer_tokens(p->writer) : 0;
    if (p->writer == p->val_writer && p->train_writer)
        progress.tokens += clt_token_writer_tokens(p->train_writer);
    progress.seconds = clt_now() - p->stage_began;
    return p->options->progress ? p->options->progress(p->options->context, &progress) : CLT_OK;
}

static void begin_stage(preparation *p, const char *stage)
{
    p->stage = stage;
    p->stage_began = clt_now();
    p->done = 0;
}

/* --- input --- */

static clt_status open_inputs(preparation *p)
{
    const clt_prepare_options *o = p->options;
    clt_texts *t = &p->texts;
    t->key = "TEXT";
    t->json_option = "--json-key";
    t->json_key = o->json_key ? o->json_key : "";
    for (int i = 0; i < o->n_inputs; i++)
        CLT_TRY(clt_texts_add(t, o->inputs[i]));
    if (t->total == 0)
        CLT_FAIL(CLT_EDATA,
                 "preparing data: there is not a single byte in the %zu text files; give files with "
                 "text",
                 t->n_files);
    clt_texts_warn_bytes(t);
    p->train = clt_texts_cut(t, (uint64_t)((double)t->total * (1.0 - o->split)));
    p->result->bytes = t->total;
    p->result->files = (int)t->n_files;
    return CLT_OK;
}

/* --- tokenizer --- */

static clt_status count_words(preparation *p, clt_bpe_trainer *trainer)
{
    begin_stage(p, "counting words");
    for (size_t i = 0; i < p->texts.n_documents; i++) {
        size_t size;
        const char *text = clt_document_part(&p->texts.documents[i], 0, p->train, &size);
        while (size > 0) {
            size_t piece = clt_tokenize_cut(NULL, text, size, COUNT_PIECE);
            CLT_TRY(clt_bpe_trainer_add(trainer, text, piece));
            text += piece;
            size -= piece;
            p->done += piece;
            CLT_TRY(tell(p, p->done, p->train));
        }
    }
    return CLT_OK;
}

static clt_status on_merges(void *context, uint32_t merges, uint32_t of)
{
    return tell(context, merges, of);
}

static clt_status get_tokenizer(preparation *p)
{
    const clt_prepare_options *o = p->options;
    CLT_SCOPED(clt_bpe_trainer) *trainer = NULL;
    if (o->train_bpe == 0)
        return clt_tokenizer_open(o->tokenizer, &p->tokenizer);
    CLT_TRY(clt_bpe_trainer_create(&trainer));
    CLT_TRY(count_words(p, trainer));
    begin_stage(p, "choosing merges");
    return clt_bpe_trainer_run(trainer, o->train_bpe, on_merges, p, &p->tokenizer);
}

/* --- shards --- */

static clt_status on_ids(void *context, const uint32_t *ids, size_t count, size_t bytes)
{
    preparation *p = context;
    CLT_TRY(clt_token_writer_put(p->writer, ids, count));
    return tell(p, p->done + bytes, p->texts.total);
}

static clt_status write_part(preparation *p, clt_token_writer *writer, uint64_t from, uint64_t to)
{
    p->writer = writer;
    CLT_TRY(clt_fail_prefix(
        clt_tokenize_documents(p->tokenizer, &p->texts, from, to, p->options->threads, on_ids, p),
        "tokenising"));
    p->done += to - from;
    return clt_token_writer_finish(writer);
}

/* Warns if names of special tokens are encoded as text, and if no token separates the documents. */
static void warn_of_tokens(const preparation *p)
{
    const char *name = NULL;
    for (size_t i = 0; i < p->texts.n_documents && !name; i++)
        name = clt_tokenizer_special_in(p->tokenizer, p->texts.documents[i].bytes,
                                        (size_t)p->texts.documents[i].size);
    if (name)
        CLT_WARN("data prepare: the text contains %s, the name of a special token, which is encoded as plain "
                 "text; with --special-tokens it becomes that token",
                 name);
    if (p->texts.n_documents > 1 && clt_tokenizer_end_of_text(p->tokenizer) < 0)
        CLT_WARN("data prepare: the tokenizer has no end-of-text token, so nothing stands between the %zu "
                 "documents: they run into each other",
                 p->texts.n_documents);
}

static clt_status write_shards(preparation *p)
{
    const clt_prepare_options *o = p->options;
    clt_prepare_result *r = p->result;
    const char *folder = p->partial.text;
    r->vocab = clt_tokenizer_vocab(p->tokenizer);
    r->width = r->vocab <= 65536 ? 2 : 4;
    CLT_TRY(clt_token_writer_create(folder, "train", r->width, o->shard_tokens, &p->train_writer));
    CLT_TRY(clt_token_writer_create(folder, "val", r->width, o->shard_tokens, &p->val_writer));
    clt_tokenizer_read_special(p->tokenizer, o->special_tokens);
    warn_of_tokens(p);
    begin_stage(p, "tokenising");
    CLT_TRY(write_part(p, p->train_writer, 0, p->train));
    CLT_TRY(write_part(p, p->val_writer, p->train, p->texts.total));
    r->encode_seconds = clt_now() - p->stage_began;
    r->train_tokens = clt_token_writer_tokens(p->train_writer);
    r->val_tokens = clt_token_writer_tokens(p->val_writer);
    r->train_shards = clt_token_writer_shards(p->train_writer);
    r->val_shards = clt_token_writer_shards(p->val_writer);
    (void)snprintf(r->tokenizer, sizeof r->tokenizer, "%s", clt_tokenizer_description(p->tokenizer));
    return CLT_OK;
}

/* --- pairs --- */

static clt_status on_sentences(void *context, uint64_t bytes)
{
    preparation *p = context;
    return tell(p, bytes, p->texts.total);
}

typedef struct pair_part {
    preparation *p;
    clt_pair_writer *writer;
} pair_part;

static clt_status on_pair(void *context, const uint32_t *ids, int64_t first, int64_t length, bool random)
{
    const pair_part *part = context;
    part->p->result->random_pairs += random;
    return clt_pair_writer_put(part->writer, ids, first, length, random);
}

/* Writes the pairs of the documents [from, to) to the file `name`. */
static clt_status write_pair_file(preparation *p, const clt_sentences *s, const clt_pairing *how, size_t from,
                                  size_t to, const char *name, int64_t *count)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_pair_writer) *writer = NULL;
    const clt_pair_header header = {.width = p->result->width,
                                    .context = how->context,
                                    .vocab = p->result->vocab,
                                    .tokenizer = clt_tokenizer_hash(p->tokenizer)};
    *count = 0;
    if (from == to)
        return CLT_OK;
    CLT_TRY(clt_path_join(p->partial.text, name, &path));
    CLT_TRY(clt_pair_writer_create(path, &header, &writer));
    pair_part part = {p, writer};
    CLT_TRY(clt_pairs_make(s, how, from, to, on_pair, &part));
    *count = clt_pair_writer_count(writer);
    return clt_pair_writer_finish(writer);
}

/* *train: the number of documents for training. The rest is for evaluation; that is none, or at least
 * two. */
static clt_status divide(const preparation *p, const clt_sentences *s, size_t *train)
{
    double kept = (1.0 - p->options->split) * (double)s->ids.count;
    *train = s->n_documents;
    if (s->n_documents < 2)
        CLT_FAIL(CLT_EDATA,
                 "preparing pairs: the text has %zu document%s, and second texts come from others, so two "
                 "are needed; put an empty line between documents, and each sentence on a separate line",
                 s->n_documents, CLT_PLURAL(s->n_documents));
    if (p->options->split <= 0)
        return CLT_OK;
    if (s->n_documents < 4)
        CLT_FAIL(
            CLT_EDATA,
            "preparing pairs: %zu documents are too few for a part for evaluation, since both parts need "
            "two; use --split 0, or put an empty line between documents",
            s->n_documents);
    *train = s->n_documents - 2;
    while (*train > 2 && (double)s->begin[s->first[*train]] > kept)
        --*train;
    return CLT_OK;
}

static clt_status role_of(const preparation *p, clt_token_role role, const char *name, uint32_t *out)
{
    int64_t id = clt_tokenizer_role(p->tokenizer, role);
    if (id < 0)
        CLT_FAIL(
            CLT_EDATA,
            "preparing pairs: the tokenizer (%s) has no %s token; give the tokenizer of a BERT, such as its "
            "vocab.txt, with --tokenizer",
            clt_tokenizer_description(p->tokenizer), name);
    *out = (uint32_t)id;
    return CLT_OK;
}

static clt_status write_pairs(preparation *p)
{
    const clt_prepare_options *o = p->options;
    clt_prepare_result *r = p->result;
    CLT_SCOPED(clt_sentences) s = {.n_sentences = 0};
    clt_pairing how = {.context = o->pair_context,
                       .shorter = o->pair_shorter,
                       .copies = o->pair_copies,
                       .seed = o->pair_seed};
    uint32_t id;
    size_t train;
    CLT_TRY(role_of(p, CLT_TOKEN_CLASS, "[CLS]", &how.begin));
    CLT_TRY(role_of(p, CLT_TOKEN_SEPARATOR, "[SEP]", &how.separator));
    CLT_TRY(role_of(p, CLT_TOKEN_MASK, "[MASK]", &id));
    CLT_TRY(role_of(p, CLT_TOKEN_PADDING, "[PAD]", &id));
    clt_tokenizer_read_special(p->tokenizer, o->special_tokens);
    begin_stage(p, "tokenising");
    CLT_TRY(clt_sentences_read(&p->texts, p->tokenizer, on_sentences, p, &s));
    CLT_TRY(divide(p, &s, &train));
    r->vocab = clt_tokenizer_vocab(p->tokenizer);
    r->width = r->vocab <= 65536 ? 2 : 4;
    r->documents = (int64_t)s.n_documents;
    r->sentences = (int64_t)s.n_sentences;
    r->train_tokens = s.begin[s.first[train]];
    r->val_tokens = s.ids.count - r->train_tokens;
    CLT_TRY(write_pair_file(p, &s, &how, 0, train, "train" CLT_PAIR_ENDING, &r->train_pairs));
    CLT_TRY(write_pair_file(p, &s, &how, train, s.n_documents, "val" CLT_PAIR_ENDING, &r->val_pairs));
    r->encode_seconds = clt_now() - p->stage_began;
    (void)snprintf(r->tokenizer, sizeof r->tokenizer, "%s", clt_tokenizer_description(p->tokenizer));
    return CLT_OK;
}

static void manifest_part(clt_json_writer *w, const char *name, const clt_token_writer *writer)
{
    clt_jw_kobject(w, name);
    clt_jw_kint(w, "tokens", (int64_t)clt_token_writer_tokens(writer));
    clt_jw_key(w, "files");
    clt_token_writer_list(writer, w);
    clt_jw_end_object(w);
}

/* The file of pairs of a part, with the hash of its bytes; `pairs` 0: the part has none. */
static clt_status manifest_pairs(const preparation *p, const char *part, const char *name, int64_t pairs,
                                 clt_json_writer *w)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_mapping) mapping = {0};
    char hash[CLT_HASH64_TEXT];
    clt_jw_kobject(w, part);
    clt_jw_karray(w, "files");
    if (pairs > 0) {
        CLT_TRY(clt_path_join(p->partial.text, name, &path));
        CLT_TRY(clt_map_open(path, CLT_EDATA, &mapping));
        clt_jw_object(w);
        clt_jw_kstring(w, "name", name);
        clt_jw_kint(w, "pairs", pairs);
        clt_jw_kstring(w, "xxh64", clt_hash64_text(clt_hash64(mapping.data, mapping.size), hash));
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
    return CLT_OK;
}

/* Writes the options of pairing, and the files of pairs. */
static clt_status manifest_pairing(const preparation *p, clt_json_writer *w)
{
    const clt_prepare_options *o = p->options;
    clt_jw_kobject(w, "pairing");
    clt_jw_kint(w, "context", o->pair_context);
    clt_jw_kdouble(w, "shorter", o->pair_shorter);
    clt_jw_kint(w, "copies", o->pair_copies);
    clt_jw_kint(w, "seed", (int64_t)o->pair_seed);
    clt_jw_kdouble(w, "split", o->split);
    clt_jw_kbool(w, "special_tokens", o->special_tokens);
    clt_jw_end_object(w);
    CLT_TRY(manifest_pairs(p, "train", "train" CLT_PAIR_ENDING, p->result->train_pairs, w));
    return manifest_pairs(p, "val", "val" CLT_PAIR_ENDING, p->result->val_pairs, w);
}

static clt_status manifest_text(const preparation *p, clt_str *out)
{
    bool pairs = p->options->pair_context > 0;
    char hash[CLT_HASH64_TEXT];
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "format", pairs ? CLT_MANIFEST_PAIRS : CLT_MANIFEST_TOKENS);
    clt_jw_kstring(&w, "dtype", p->result->width == 2 ? "u16" : "u32");
    clt_jw_kobject(&w, "tokenizer");
    clt_jw_kstring(&w, "file", "tokenizer.json");
    clt_jw_kint(&w, "vocab", p->result->vocab);
    clt_jw_kint(&w, "end_of_text", clt_tokenizer_end_of_text(p->tokenizer));
    clt_jw_kstring(&w, "hash", clt_hash64_text(clt_tokenizer_hash(p->tokenizer), hash));
    clt_jw_end_object(&w);
    if (pairs) {
        CLT_TRY(manifest_pairing(p, &w));
    } else {
        manifest_part(&w, "train", p->train_writer);
        manifest_part(&w, "val", p->val_writer);
    }
    clt_jw_karray(&w, "sources");
    for (size_t i = 0; i < p->texts.n_files; i++) {
        clt_jw_object(&w);
        clt_jw_kstring(&w, "path", p->texts.files[i].path);
        clt_jw_kint(&w, "bytes", (int64_t)p->texts.files[i].bytes);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}

static clt_status write_rest(preparation *p)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(clt_tokenizer_save_folder(p->tokenizer, 0, p->partial.text));
    CLT_TRY(clt_path_join(p->partial.text, "manifest.json", &path));
    CLT_TRY(manifest_text(p, &text));
    return clt_file_write(path, text.text, text.length);
}

/* --- the folder --- */

static bool is_empty_folder(const char *path)
{
    bool empty = true;
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    errno = 0; /* readdir sets errno if the folder cannot be read to its end */
    for (struct dirent *entry; empty && (entry = readdir(dir)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    empty = empty && errno == 0;
    closedir(dir);
    return empty;
}

static clt_status make_folder(preparation *p)
{
    const char *out = p->options->out;
    size_t length = strlen(out);
    while (length > 1 && out[length - 1] == '/')
        length--;
    if (clt_file_exists(out) && !is_empty_folder(out))
        CLT_FAIL(
            CLT_EUSAGE,
            "preparing data: '%s' is there already and is not an empty folder; name another one with --out, "
            "or remove it",
            out);
    CLT_SCOPED(clt_str) bare = {0};
    clt_str_append_n(&bare, out, length);
    CLT_TRY(clt_str_check(&bare));
    CLT_TRY(clt_temporary_name(bare.text, "partial", &p->partial));
    return clt_mkdir_p(p->partial.text);
}

static clt_status publish(const preparation *p)
{
    char why[CLT_ERRNO_TEXT];
    const char *out = p->options->out;
    CLT_TRY(clt_fsync_path(p->partial.text));
    if (rename(p->partial.text, out) != 0)
        CLT_FAIL(CLT_ESTORAGE, "preparing data: renaming '%s' to '%s': %s", p->partial.text, out,
                 clt_errno_text(errno, why));
    return clt_fsync_parent(out);
}

static clt_status check_options(const clt_prepare_options *o)
{
    if (!(o->split >= 0.0 && o->split < 1.0))
        CLT_FAIL(CLT_EUSAGE, "preparing data: a split of %g is not possible; 0 to below 1 is", o->split);
    if (o->n_inputs < 1 || !*o->out)
        CLT_FAIL(CLT_EUSAGE, "preparing data: name text files and the folder to make");
    CLT_TRY(clt_refuse_remote(o->out));
    if (o->train_bpe != 0 && *o->tokenizer)
        CLT_FAIL(CLT_EUSAGE,
                 "preparing data: a tokenizer is either given (%s) or trained (%lld tokens), not both",
                 o->tokenizer, (long long)o->train_bpe);
    if (o->pair_context != 0 && (o->pair_context < CLT_PAIR_LEAST || o->pair_context > CLT_PAIR_CONTEXT))
        CLT_FAIL(CLT_EUSAGE, "preparing data: pairs of %lld tokens are not possible; %d to %d are",
                 (long long)o->pair_context, CLT_PAIR_LEAST, CLT_PAIR_CONTEXT);
    return CLT_OK;
}

static void release(preparation *p)
{
    clt_token_writer_destroy(p->train_writer);
    clt_token_writer_destroy(p->val_writer);
    clt_tokenizer_close(p->tokenizer);
    clt_texts_free(&p->texts);
    clt_str_free(&p->partial);
}

CLT_SCOPED_VALUE(preparation, release)

/* Fills the temporary folder and renames it. */
static clt_status fill_folder(preparation *p)
{
    CLT_TRY(get_tokenizer(p));
    CLT_TRY(p->options->pair_context ? write_pairs(p) : write_shards(p));
    CLT_TRY(clt_texts_check(&p->texts));
    CLT_TRY(write_rest(p));
    return publish(p);
}

clt_status clt_prepare(const clt_prepare_options *options, clt_prepare_result *result)
{
    CLT_SCOPED(preparation) p = {.options = options, .result = result};
    *result = (clt_prepare_result){0};
    CLT_TRY(check_options(options));
    CLT_TRY(open_inputs(&p));
    CLT_TRY(make_folder(&p));
    clt_status status = fill_folder(&p);
    CLT_KEEP_ERROR();
    if (status != CLT_OK)
        (void)clt_remove_tree(p.partial.text);
    return status;
}
