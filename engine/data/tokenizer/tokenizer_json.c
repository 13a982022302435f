/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the parts of a tokenizer.json that say how a text is normalised, split into words and framed.
 * Refuses anything that is not supported and could change ids; the message names it. */
#include <stdio.h>
#include <string.h>

#include "engine/data/tokenizer/tokenizer_loading.h"

/* Limit of nested sequences. */
#define MAX_DEPTH 8

clt_status clt_tokenizer_at(const clt_json_doc *doc, const clt_json *value, clt_status status)
{
    int line, column;
    if (status == CLT_OK)
        return CLT_OK;
    clt_json_position(value, &line, &column);
    return clt_fail_prefix(status, "%s:%d:%d", clt_json_source(doc), line, column);
}

clt_status clt_tokenizer_refuse(const clt_json_doc *doc, const clt_json *value, const char *what)
{
    return clt_tokenizer_at(doc, value,
                            clt_fail(CLT_EDATA, __FILE__, __LINE__,
                                     "%s: this is not supported, and to ignore it could change ids; cltrain "
                                     "reads byte-level BPE as in GPT-2, Llama 3 and Qwen 2, BPE with "
                                     "\"\u2581\" for spaces as in Llama 2, and "
                                     "WordPiece as in BERT",
                                     what));
}

static bool has_type(const clt_json *part, const char *name)
{
    return clt_json_is(clt_json_get(part, "type"), name);
}

/* Refuses "WHAT of type TYPE". */
static clt_status refuse_type(const clt_tokenizer_loading *l, const clt_json *part, const char *what)
{
    char text[120];
    const clt_json *type = clt_json_get(part, "type");
    (void)snprintf(text, sizeof text, "%s of type %.60s", what, type ? clt_json_string(type) : "(none)");
    return clt_tokenizer_refuse(l->doc, part, text);
}

typedef clt_status (*part_reader)(clt_tokenizer_loading *l, const clt_json *part);

/* Calls `read` for a part. If it is a Sequence, calls it for each part in the member `list`. */
static clt_status each_part(clt_tokenizer_loading *l, const clt_json *part, const char *list,
                            part_reader read, int depth)
{
    if (!part || clt_json_typeof(part) == CLT_JSON_NULL)
        return CLT_OK;
    if (!has_type(part, "Sequence") || depth > MAX_DEPTH)
        return read(l, part);
    const clt_json *parts = clt_json_member(part, list, CLT_JSON_ARRAY);
    if (!parts)
        return clt_tokenizer_refuse(l->doc, part, "a Sequence without its list");
    for (const clt_json *one = clt_json_first(parts); one; one = clt_json_next(one))
        CLT_TRY(each_part(l, one, list, read, depth + 1));
    return CLT_OK;
}

/* BERT's normaliser. If strip_accents is not given, accents are stripped if letters are lowered. */
static clt_status read_bert_normalizer(clt_tokenizer_loading *l, const clt_json *part)
{
    clt_wordpiece *w = &l->rules.wordpiece;
    w->clean = clt_json_flag(part, "clean_text", true);
    w->chinese = clt_json_flag(part, "handle_chinese_chars", true);
    w->lower = clt_json_flag(part, "lowercase", true);
    w->strip = clt_json_flag(part, "strip_accents", w->lower);
    return CLT_OK;
}

/* --- SentencePiece's BPE --- */

static bool is_text(const clt_json *part, const char *key, const char *wanted)
{
    return clt_json_is(clt_json_get(part, key), wanted);
}

/* True if a part replaces the text `from` by `to`. */
static bool replaces(const clt_json *part, const char *from, const char *to)
{
    const clt_json *pattern = clt_json_member(part, "pattern", CLT_JSON_OBJECT);
    return has_type(part, "Replace") && is_text(pattern, "String", from) && is_text(part, "content", to);
}

/* Reads Prepend or Replace. A Prepend without the Replace is refused later, in read_sentence. */
static clt_status read_spaces(clt_tokenizer_loading *l, const clt_json *part)
{
    clt_sentence *s = &l->rules.sentence;
    if (has_type(part, "Prepend") && is_text(part, "prepend", CLT_SPACE_LETTER) && !s->prepend)
        s->prepend = CLT_PREPEND_ALWAYS;
    else if (replaces(part, " ", CLT_SPACE_LETTER) && !s->normal)
        s->on = s->normal = true;
    else
        return clt_tokenizer_refuse(
            l->doc, part,
            "a normalizer that changes the text other than for \"\u2581\" in the place of "
            "spaces and before a text");
    return CLT_OK;
}

/* Reads a Metaspace of the pre_tokenizer or the decoder. *prepend: where it inserts CLT_SPACE_LETTER. */
static clt_status read_metaspace(const clt_tokenizer_loading *l, const clt_json *part, clt_prepend *prepend)
{
    static const char *const schemes[] = {"never", "first", "always"}; /* indexed by clt_prepend */
    *prepend = clt_json_flag(part, "add_prefix_space", true) ? CLT_PREPEND_ALWAYS : CLT_PREPEND_NEVER;
    if (!is_text(part, "replacement", CLT_SPACE_LETTER))
        return clt_tokenizer_refuse(l->doc, part, "a Metaspace with another replacement than \"\u2581\"");
    if (!clt_json_given(part, "prepend_scheme"))
        return CLT_OK;
    for (int i = 0; i < 3; i++)
        if (is_text(part, "prepend_scheme", schemes[i])) {
            *prepend = (clt_prepend)i;
            return CLT_OK;
        }
    return clt_tokenizer_refuse(l->doc, part, "a Metaspace with an unknown prepend_scheme");
}

/* Reads the pre_tokenizer. If a normalizer has replaced all spaces, there must be none, or one that splits
 * at spaces and so does nothing. Otherwise it must be a Metaspace. */
static clt_status read_sentence_words(clt_tokenizer_loading *l, const clt_json *root)
{
    const clt_json *part = clt_json_given(root, "pre_tokenizer");
    const clt_json *pattern = clt_json_get(part, "pattern");
    clt_sentence *s = &l->rules.sentence;
    if (s->normal)
        return !part || (has_type(part, "Split") && is_text(pattern, "String", " "))
                   ? CLT_OK
                   : refuse_type(l, part, "after a normalizer that replaces spaces, a pre_tokenizer");
    if (s->prepend || l->rules.nfc)
        return clt_tokenizer_refuse(l->doc, clt_json_get(root, "normalizer"),
                                    "a normalizer beside a pre_tokenizer of type Metaspace");
    s->on = true;
    s->split = clt_json_flag(part, "split", true);
    return read_metaspace(l, part, &s->prepend);
}

/* Reads the parts of a model of SentencePiece's kind. */
static clt_status read_sentence_model(clt_tokenizer_loading *l, const clt_json *model)
{
    clt_sentence *s = &l->rules.sentence;
    const clt_json *unknown = clt_json_given(model, "unk_token");
    s->fallback = clt_json_flag(model, "byte_fallback", false);
    s->fuse = clt_json_flag(model, "fuse_unk", false);
    s->unknown_id = CLT_NO_TOKEN;
    if (!unknown)
        return CLT_OK;
    int64_t id;
    const clt_json *entry = clt_json_get(clt_json_get(model, "vocab"), clt_json_string(unknown));
    if (!clt_json_int_within(entry, 0, CLT_TOKENIZER_MAX_VOCAB - 1, &id))
        return clt_tokenizer_refuse(l->doc, unknown, "a model.unk_token that the vocabulary lacks");
    s->unknown_id = (uint32_t)id;
    return CLT_OK;
}

static clt_status read_sentence_decoder(clt_tokenizer_loading *l, const clt_json *part)
{
    clt_sentence *s = &l->rules.sentence;
    clt_prepend prepend;
    int64_t start = 0, stop = 0;
    if (has_type(part, "Fuse") || has_type(part, "ByteFallback") || replaces(part, CLT_SPACE_LETTER, " "))
        return CLT_OK;
    if (has_type(part, "Metaspace")) {
        CLT_TRY(read_metaspace(l, part, &prepend));
        s->drop = prepend == CLT_PREPEND_NEVER ? CLT_DROP_NOTHING : CLT_DROP_SPACES;
        return CLT_OK;
    }
    if (!has_type(part, "Strip"))
        return refuse_type(l, part, "a decoder");
    if (!is_text(part, "content", " ") || !clt_json_int_within(clt_json_get(part, "start"), 0, 1, &start) ||
        !clt_json_int_within(clt_json_get(part, "stop"), 0, 0, &stop))
        return clt_tokenizer_refuse(l->doc, part, "a decoder Strip of more than one space at the beginning");
    s->drop = start ? CLT_DROP_SPACE : CLT_DROP_NOTHING;
    return CLT_OK;
}

static clt_status read_normalizer(clt_tokenizer_loading *l, const clt_json *part)
{
    if (!l->rules.wordpiece.on && (has_type(part, "Prepend") || has_type(part, "Replace")))
        return read_spaces(l, part);
    if (l->rules.wordpiece.on)
        return has_type(part, "BertNormalizer") ? read_bert_normalizer(l, part)
                                                : refuse_type(l, part, "a WordPiece's normalizer");
    if (!has_type(part, "NFC"))
        return refuse_type(l, part, "a normalizer");
    l->rules.nfc = true;
    return CLT_OK;
}

/* --- pre_tokenizer: at most one Digits, then at most one Split, then ByteLevel --- */

static clt_status read_split(clt_tokenizer_loading *l, const clt_json *part)
{
    const clt_json *regex = clt_json_get(clt_json_get(part, "pattern"), "Regex");
    if (!regex || !clt_words_find(clt_json_string(regex), &l->rules.splitting.words))
        return clt_tokenizer_refuse(l->doc, part,
                                    "a pre_tokenizer Split with an expression that is not known");
    if (!is_text(part, "behavior", "Isolated") || clt_json_flag(part, "invert", false))
        return clt_tokenizer_refuse(l->doc, part, "a pre_tokenizer Split that does not isolate the words");
    return CLT_OK;
}

static clt_status read_pre_tokenizer(clt_tokenizer_loading *l, const clt_json *root)
{
    const clt_json *part = clt_json_given(root, "pre_tokenizer");
    const clt_json *parts = part, *level = NULL, *split = NULL;
    if (l->rules.sentence.normal || has_type(part, "Metaspace"))
        return read_sentence_words(l, root);
    if (l->rules.sentence.prepend)
        return clt_tokenizer_refuse(l->doc, clt_json_get(root, "normalizer"),
                                    "a normalizer Prepend without a Replace of spaces");
    if (!part)
        return clt_tokenizer_refuse(l->doc, root, "no pre_tokenizer");
    if (l->rules.wordpiece.on)
        return has_type(part, "BertPreTokenizer") ? CLT_OK
                                                  : refuse_type(l, part, "a WordPiece's pre_tokenizer");
    if (has_type(part, "Sequence")) {
        parts = clt_json_first(clt_json_member(part, "pretokenizers", CLT_JSON_ARRAY));
        if (!parts)
            return clt_tokenizer_refuse(l->doc, part, "a pre_tokenizer Sequence without parts");
    }
    for (; parts; parts = parts == part ? NULL : clt_json_next(parts)) {
        bool first = !split && !level;
        if (has_type(parts, "ByteLevel") && !level) {
            level = parts;
        } else if (has_type(parts, "Split") && first) {
            split = parts;
        } else if (has_type(parts, "Digits") && first && !l->rules.splitting.digits) {
            l->rules.splitting.digits =
                clt_json_flag(parts, "individual_digits", false) ? CLT_DIGITS_SINGLE : CLT_DIGITS_RUNS;
        } else {
            return refuse_type(l, parts, "a pre_tokenizer");
        }
    }
    if (!level)
        return clt_tokenizer_refuse(l->doc, part, "a pre_tokenizer without ByteLevel");
    if (split)
        CLT_TRY(read_split(l, split));
    if (clt_json_flag(level, "use_regex", true) == (split != NULL))
        return clt_tokenizer_refuse(l->doc, level,
                                    split ? "pre_tokenizer.use_regex true after a Split"
                                          : "pre_tokenizer.use_regex false without a Split");
    l->rules.prefix_space = clt_json_flag(level, "add_prefix_space", false);
    if (l->rules.prefix_space && (split || l->rules.splitting.digits))
        return clt_tokenizer_refuse(l->doc, level, "pre_tokenizer.add_prefix_space after a Split or Digits");
    return CLT_OK;
}

/* --- post_processor: ids around every text --- */

static clt_status add_around(clt_tokenizer_loading *l, const clt_json *part, clt_around *around,
                             const clt_json *id)
{
    int64_t value;
    if (!clt_json_int_within(id, 0, CLT_TOKENIZER_MAX_VOCAB - 1, &value) || around->count == CLT_MAX_AROUND)
        return clt_tokenizer_refuse(l->doc, part, "a post_processor with tokens that have no ids");
    around->id[around->count++] = (uint32_t)value;
    return CLT_OK;
}

static clt_status read_template(clt_tokenizer_loading *l, const clt_json *part)
{
    const clt_json *single = clt_json_member(part, "single", CLT_JSON_ARRAY);
    const clt_json *specials = clt_json_get(part, "special_tokens");
    int texts = 0;
    for (const clt_json *piece = clt_json_first(single); piece; piece = clt_json_next(piece)) {
        if (clt_json_get(piece, "Sequence")) {
            texts++;
            continue;
        }
        const clt_json *name = clt_json_get(clt_json_get(piece, "SpecialToken"), "id");
        const clt_json *entry = name ? clt_json_get(specials, clt_json_string(name)) : NULL;
        const clt_json *ids = clt_json_member(entry, "ids", CLT_JSON_ARRAY);
        if (!ids)
            return clt_tokenizer_refuse(l->doc, piece,
                                        "a post_processor with a token that it does not define");
        for (const clt_json *id = clt_json_first(ids); id; id = clt_json_next(id))
            CLT_TRY(add_around(l, piece, texts ? &l->rules.after : &l->rules.before, id));
    }
    return texts == 1 ? CLT_OK
                      : clt_tokenizer_refuse(l->doc, part, "a post_processor whose template is not one text");
}

/* The id in a member such as "cls": ["[CLS]", 101]. */
static const clt_json *pair_id(const clt_json *part, const char *key)
{
    const clt_json *name = clt_json_first(clt_json_member(part, key, CLT_JSON_ARRAY));
    return name ? clt_json_next(name) : NULL;
}

static clt_status read_post_processor(clt_tokenizer_loading *l, const clt_json *part)
{
    if (has_type(part, "ByteLevel")) /* changes offsets, not ids */
        return CLT_OK;
    if (has_type(part, "TemplateProcessing"))
        return read_template(l, part);
    if (!has_type(part, "RobertaProcessing") && !has_type(part, "BertProcessing"))
        return refuse_type(l, part, "a post_processor");
    CLT_TRY(add_around(l, part, &l->rules.before, pair_id(part, "cls")));
    return add_around(l, part, &l->rules.after, pair_id(part, "sep"));
}

static clt_status read_decoder(clt_tokenizer_loading *l, const clt_json *part)
{
    if (l->rules.wordpiece.on) /* a WordPiece's decoding puts a space before each word */
        return has_type(part, "WordPiece") ? CLT_OK : refuse_type(l, part, "a WordPiece's decoder");
    if (l->rules.sentence.on)
        return read_sentence_decoder(l, part);
    return has_type(part, "ByteLevel") || has_type(part, "Fuse") ? CLT_OK : refuse_type(l, part, "a decoder");
}

/* Reads a model of type WordPiece. */
static clt_status read_wordpiece(clt_tokenizer_loading *l, const clt_json *model)
{
    const clt_json *prefix = clt_json_given(model, "continuing_subword_prefix");
    const clt_json *unknown = clt_json_member(model, "unk_token", CLT_JSON_STRING);
    const clt_json *most = clt_json_given(model, "max_input_chars_per_word");
    int64_t characters = 100;
    if (prefix && !clt_json_is(prefix, CLT_PIECE_PREFIX))
        return clt_tokenizer_refuse(l->doc, prefix, "a continuing_subword_prefix other than \"##\"");
    if (!unknown)
        return clt_tokenizer_refuse(l->doc, model, "a WordPiece without an unk_token");
    if (most && !clt_json_int_within(most, 0, INT32_MAX, &characters))
        return clt_tokenizer_refuse(l->doc, most, "a max_input_chars_per_word that is not a whole number");
    l->unknown = clt_json_string(unknown);
    l->rules.wordpiece.on = true;
    l->rules.wordpiece.most = (uint32_t)characters;
    return CLT_OK;
}

static clt_status check_model(const clt_tokenizer_loading *l, const clt_json *model)
{
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const clt_json *type = clt_json_get(model, "type"), *dropout = clt_json_get(model, "dropout");
    if (type && !clt_json_is(type, "BPE"))
        return clt_tokenizer_refuse(l->doc, type, "a model other than BPE and WordPiece");
    if (clt_json_number(dropout) != 0.0)
        return clt_tokenizer_refuse(l->doc, dropout, "model.dropout");
    for (int i = 0; i < 2; i++) {
        const clt_json *value = clt_json_get(model, empty[i]);
        if (*clt_json_string(value))
            return clt_tokenizer_refuse(l->doc, value, empty[i]);
    }
    return CLT_OK;
}

clt_status clt_tokenizer_read_rules(clt_tokenizer_loading *l, const clt_json *root, const clt_json *model)
{
    const clt_json *fallback = clt_json_get(model, "byte_fallback");
    CLT_TRY(has_type(model, "WordPiece") ? read_wordpiece(l, model) : check_model(l, model));
    CLT_TRY(each_part(l, clt_json_get(root, "normalizer"), "normalizers", read_normalizer, 0));
    CLT_TRY(read_pre_tokenizer(l, root));
    if (l->rules.sentence.on) {
        if (l->rules.wordpiece.on || l->rules.nfc)
            return clt_tokenizer_refuse(l->doc, root, "NFC or WordPiece together with \"\u2581\" for spaces");
        CLT_TRY(read_sentence_model(l, model));
    } else if (clt_json_bool(fallback)) {
        return clt_tokenizer_refuse(l->doc, fallback, "model.byte_fallback of a byte-level BPE");
    }
    CLT_TRY(each_part(l, clt_json_get(root, "post_processor"), "processors", read_post_processor, 0));
    CLT_TRY(each_part(l, clt_json_get(root, "decoder"), "decoders", read_decoder, 0));
    l->rules.ignore_merges = clt_json_bool(clt_json_get(model, "ignore_merges"));
    return CLT_OK;
}
