/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the tokenizer in a folder of transformers against the weights, and the ids of special tokens: every
 * id in config.json and generation_config.json must be a row of the model's token table and a token of the
 * tokenizer. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/files/fileio.h"
#include "engine/pretrained/pretrained_internal.h"

#define GENERATION_MAX_BYTES 1000000u
#define MAX_STOPS 1000 /* most ids in a list of eos_token_id */

bool clt_pretrained_has_tokenizer(const char *folder)
{
    return clt_pretrained_holds(folder, "tokenizer.json") || clt_pretrained_holds(folder, "vocab.json") ||
           clt_pretrained_holds(folder, "encoder.json") || clt_pretrained_holds(folder, "vocab.txt");
}

/* --- a tokenizer and the model --- */

static clt_status compare(const char *folder, const clt_tokenizer *own, const clt_tokenizer *used,
                          int64_t vocab)
{
    int64_t tokens = clt_tokenizer_vocab(used), theirs = own ? (int64_t)clt_tokenizer_vocab(own) : vocab;
    const char *what = clt_tokenizer_description(used);
    CLT_SCOPED(clt_str) surplus = {0};
    bool special = clt_tokenizer_surplus(used, vocab, &surplus);
    CLT_TRY(clt_str_check(&surplus));
    if (tokens > vocab && special)
        CLT_INFO("the model of '%.300s' has no rows for special tokens of the tokenizer (%.300s), which no "
                 "text becomes: %s",
                 folder, what, surplus.text);
    else if (tokens > vocab)
        CLT_FAIL(CLT_EDATA,
                 "the data's tokenizer (%.300s) has %lld tokens, the model of '%.300s' %lld, which lacks %s; "
                 "give the tokenizer that its weights were trained with as data.tokenizer",
                 what, (long long)tokens, folder, (long long)vocab, surplus.text);
    if (own && tokens != theirs)
        CLT_FAIL(CLT_EDATA,
                 "the data's tokenizer (%.300s) has %lld tokens, the one beside the weights of '%.300s' "
                 "%lld: the ids would mean other texts; remove data.tokenizer to use the weights' own",
                 what, (long long)tokens, folder, (long long)theirs);
    if (!own && tokens != theirs && clt_tokenizer_is_bytes(used))
        CLT_FAIL(
            CLT_EDATA,
            "the data's tokenizer (%.300s) has %lld tokens, the weights of '%.300s' were made for %lld, and "
            "no tokenizer lies beside them; set data.tokenizer to the one that they were trained with",
            what, (long long)tokens, folder, (long long)theirs);
    if (own && clt_tokenizer_hash(own) != clt_tokenizer_hash(used))
        CLT_WARN("the data's tokenizer (%.300s) differs from the one beside the weights of '%.300s'; ids may "
                 "mean other texts",
                 what, folder);
    return CLT_OK;
}

clt_status clt_pretrained_check_tokenizer(const char *path, const clt_config *config)
{
    CLT_SCOPED(clt_tokenizer) *own = NULL;
    CLT_SCOPED(clt_tokenizer) *used = NULL;
    bool reads_text = clt_config_part_has(clt_config_chosen(config, "data.type"), "data.tokenizer");
    int64_t vocab = clt_config_int(config, "model.vocab");
    if (!clt_is_directory(path) || !reads_text || vocab < 1)
        return CLT_OK;
    CLT_TRY(clt_tokenizer_open_config(config, &used));
    if (clt_pretrained_has_tokenizer(path))
        CLT_TRY(clt_fail_prefix(clt_tokenizer_open(path, &own), "opening the tokenizer beside the weights"));
    return used ? compare(path, own, used, vocab) : CLT_OK;
}

/* --- special ids --- */

/* The setting of generation_config.json; NULL: there is no file, or it lacks the setting. */
static const clt_json *of_generation(const clt_pretrained *p, const char *name)
{
    return clt_json_given(clt_json_root(p->generation), name);
}

/* True if the value is the id of a row of the model. */
static bool is_row(const clt_json *value, int64_t vocab, int64_t *id)
{
    return clt_json_int_within(value, 0, vocab - 1, id);
}

/* Adds to `notes` if an id in the setting `name` of `file` is outside the model's token table, or if the
 * setting lacks the token that the tokenizer uses in the role `role`. */
static void note_special(const clt_json *setting, const char *name, const char *file, int64_t role,
                         int64_t vocab, clt_str *notes)
{
    const clt_json *one = NULL;
    bool known = role < 0;
    double outside = -1, id = -1;
    int count = 0, n_outside = 0;
    while ((one = clt_json_entry(setting, one))) {
        int64_t row;
        if (clt_json_typeof(one) != CLT_JSON_NUMBER)
            continue;
        id = clt_json_number(one);
        known = known || clt_pretrained_equal(id, (double)role);
        count++;
        if (!is_row(one, vocab, &row) && n_outside++ == 0)
            outside = id;
    }
    if (n_outside > 0)
        clt_str_printf(notes, "; %s %.9g of %s is not a row of the model, which has %lld", name, outside,
                       file, (long long)vocab);
    if (count == 1 && !known)
        clt_str_printf(notes, "; %s of %s is %.9g, the tokenizer says %lld", name, file, id, (long long)role);
    else if (count > 1 && !known)
        clt_str_printf(notes, "; %s of %s does not list %lld, as the tokenizer says", name, file,
                       (long long)role);
}

clt_status clt_pretrained_check_own_tokenizer(const clt_pretrained *p, const clt_tokenizer *own,
                                              int64_t vocab, clt_str *notes)
{
    static const struct {
        const char *name;
        clt_token_role role;
    } settings[] = {{"bos_token_id", CLT_TOKEN_BEGIN},
                    {"eos_token_id", CLT_TOKEN_END_OF_TEXT},
                    {"pad_token_id", CLT_TOKEN_PADDING}};
    CLT_TRY(compare(p->folder, own, own, vocab));
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *name = settings[i].name;
        int64_t role = clt_tokenizer_role(own, settings[i].role);
        note_special(clt_json_given(p->root, name), name, "config.json", role, vocab, notes);
        note_special(of_generation(p, name), name, CLT_GENERATION_FILE, role, vocab, notes);
    }
    return clt_str_check(notes);
}

/* --- where generated texts end --- */

static clt_status open_generation(clt_pretrained *p)
{
    CLT_FREED char *path = NULL;
    CLT_FREED char *text = NULL;
    size_t size;
    if (!clt_pretrained_holds(p->folder, CLT_GENERATION_FILE))
        return CLT_OK;
    CLT_TRY(clt_path_join(p->folder, CLT_GENERATION_FILE, &path));
    CLT_TRY(clt_file_read(path, false, GENERATION_MAX_BYTES, CLT_ECHECKPOINT, &text, &size));
    CLT_TRY(clt_json_parse(text, size, path, CLT_ECHECKPOINT, &p->generation));
    if (clt_json_typeof(clt_json_root(p->generation)) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': it is not a JSON object", path);
    return CLT_OK;
}

/* Appends the ids of a list that are rows of the model, each once. */
static int list_rows(const clt_json *setting, int64_t vocab, clt_str *out)
{
    const clt_json *one = NULL;
    int count = 0;
    while ((one = clt_json_entry(setting, one))) {
        const clt_json *earlier = NULL;
        int64_t id, other;
        bool again = false;
        if (!is_row(one, vocab, &id))
            continue;
        while ((earlier = clt_json_entry(setting, earlier)) != one)
            again = again || (clt_json_int(earlier, &other) && other == id);
        if (!again)
            clt_str_printf(out, "%s%lld", count++ ? ", " : "", (long long)id);
    }
    return count;
}

clt_status clt_pretrained_add_stops(clt_pretrained *p)
{
    CLT_SCOPED(clt_str) list = {0};
    const char *vocab = clt_pretrained_value(p, "model.vocab");
    CLT_TRY(open_generation(p));
    const clt_json *setting = of_generation(p, "eos_token_id"); /* transformers' generate prefers this file */
    const char *file = setting ? CLT_GENERATION_FILE : "config.json";
    setting = setting ? setting : clt_json_given(p->root, "eos_token_id");
    if (!clt_pretrained_generates(p) || !vocab || clt_json_typeof(setting) != CLT_JSON_ARRAY)
        return CLT_OK; /* a single id should be the tokenizer's end of text: note_special compares them */
    if (clt_json_count(setting) > MAX_STOPS)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%.600s/%s': eos_token_id lists %zu ids, and %d are the limit",
                 p->folder, file, clt_json_count(setting), MAX_STOPS);
    if (list_rows(setting, strtoll(vocab, NULL, 10), &list) > 0)
        clt_pretrained_add(p, "model.stop_tokens", clt_arena_printf(p->arena, "[%s]", list.text),
                           clt_arena_printf(p->arena, "eos_token_id of %s lists them", file),
                           CLT_PRESET_DEFAULT, NULL);
    return clt_str_check(&list);
}
