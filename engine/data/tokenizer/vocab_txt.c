/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads BERT's vocab.txt, in which the line number is the token's id, by writing the equivalent
 * tokenizer.json. The flags of the tokenizer_config.json beside it say how texts are normalised. */
#include <string.h>

#include "engine/data/texts/text_paths.h"
#include "engine/data/tokenizer/tokenizer_loading.h"
#include "engine/files/fileio.h"

#define VOCAB_MAX_BYTES ((uint64_t)64 << 20)
#define UNKNOWN "[UNK]"

static const char *const specials[] = {"[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]"};
#define N_SPECIALS (sizeof specials / sizeof specials[0])

typedef struct vocab_flags {
    bool lower, strip, chinese;
} vocab_flags;

static clt_status read_flags(const char *path, vocab_flags *flags)
{
    CLT_FREED char *beside = NULL;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    *flags = (vocab_flags){true, true, true};
    CLT_TRY(clt_path_beside(path, "tokenizer_config.json", &beside));
    if (!clt_file_exists(beside) || clt_is_directory(beside))
        return CLT_OK;
    CLT_TRY(clt_json_parse_file(beside, CLT_EDATA, &doc));
    const clt_json *root = clt_json_root(doc);
    flags->lower = clt_json_flag(root, "do_lower_case", true);
    flags->strip = clt_json_flag(root, "strip_accents", flags->lower);
    flags->chinese = clt_json_flag(root, "tokenize_chinese_chars", true);
    return CLT_OK;
}

/* Number of bytes of a line without white space at its end. */
static size_t trimmed(const char *line, size_t size)
{
    while (size > 0 && strchr(" \t\r\v\f", line[size - 1]) && line[size - 1])
        size--;
    return size;
}

/* Writes the tokens, one on each line. Sets id[i] if the file has special token i; else id[i] stays -1. */
static clt_status write_tokens(const char *text, size_t size, clt_str *out, int64_t id[N_SPECIALS])
{
    CLT_SCOPED(clt_str) token = {0};
    int64_t line = 0;
    for (size_t at = 0; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        token.length = 0;
        clt_str_append_n(&token, text + at, trimmed(text + at, length));
        CLT_TRY(clt_str_check(&token));
        if (memchr(token.text, 0, token.length))
            CLT_FAIL(CLT_EDATA, "line %lld: a NUL byte; is this the right file?", (long long)line + 1);
        for (size_t i = 0; i < N_SPECIALS; i++)
            if (strcmp(token.text, specials[i]) == 0)
                id[i] = line;
        clt_str_append(out, line ? ",\n" : "");
        clt_json_writer w = clt_json_writer_make(out, 0);
        clt_jw_string(&w, token.text);
        clt_str_printf(out, ":%lld", (long long)line);
        at += length + 1;
    }
    if (line == 0)
        CLT_FAIL(CLT_EDATA, "the file is empty; copy or download it again");
    return clt_str_check(out);
}

static void write_specials(const int64_t id[N_SPECIALS], clt_str *out)
{
    int written = 0;
    for (size_t i = 0; i < N_SPECIALS; i++)
        if (id[i] >= 0)
            clt_str_printf(out, "%s{\"id\":%lld,\"content\":\"%s\",\"special\":true,\"normalized\":false}",
                           written++ ? "," : "", (long long)id[i], specials[i]);
}

static const char *word(bool flag)
{
    return flag ? "true" : "false";
}

clt_status clt_vocab_txt_parse(const char *path, clt_json_doc **out)
{
    CLT_FREED char *text = NULL;
    CLT_SCOPED(clt_str) json = {0};
    vocab_flags flags;
    int64_t id[N_SPECIALS];
    size_t size;
    for (size_t i = 0; i < N_SPECIALS; i++)
        id[i] = -1;
    CLT_TRY(read_flags(path, &flags));
    CLT_TRY(clt_file_read(path, false, VOCAB_MAX_BYTES, CLT_EDATA, &text, &size));
    clt_str_append(&json, "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"" UNKNOWN "\",\"vocab\":{");
    CLT_TRY(write_tokens(text, size, &json, id));
    clt_str_printf(&json,
                   "}},\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                   "\"handle_chinese_chars\":%s,\"strip_accents\":%s,\"lowercase\":%s},",
                   word(flags.chinese), word(flags.strip), word(flags.lower));
    clt_str_append(&json, "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"added_tokens\":[");
    write_specials(id, &json);
    clt_str_append(&json, "]");
    if (id[2] >= 0 && id[3] >= 0)
        clt_str_printf(
            &json,
            ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"%s\",%lld],\"cls\":[\"%s\",%lld]}",
            specials[3], (long long)id[3], specials[2], (long long)id[2]);
    clt_str_append(&json, "}");
    CLT_TRY(clt_str_check(&json));
    return clt_json_parse(json.text, json.length, path, CLT_EDATA, out);
}
