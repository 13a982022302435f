/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes conversations as their templates do, and encodes a text that consists of parts. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/chat/chat_parts.h"

static const clt_chat_part template_text = {.marker = true};

/* --- parts --- */

static clt_status add_part(clt_chat_text *out, clt_chat_part part)
{
    CLT_TRY(clt_grow(&out->part, &out->capacity, out->count + 1, sizeof *out->part, "the parts of a sample"));
    part.end = out->text.length;
    out->part[out->count++] = part;
    return clt_str_check(&out->text);
}

clt_status clt_chat_add_text(clt_chat_text *out, const char *text, clt_chat_part flags)
{
    if (!*text)
        return CLT_OK;
    clt_str_append(&out->text, text);
    flags.id = -1;
    return add_part(out, flags);
}

clt_status clt_chat_add_token(clt_chat_text *out, int64_t id, bool trained)
{
    return add_part(out, (clt_chat_part){.id = id, .apart = true, .trained = trained});
}

clt_status clt_chat_add_role(const clt_chat_rules *rules, clt_token_role role, bool trained,
                             clt_chat_text *out)
{
    int64_t id = clt_tokenizer_role(rules->tokenizer, role);
    if (id < 0)
        CLT_FAIL(CLT_EDATA, "the tokenizer has no %s, which the end of an answer needs",
                 role == CLT_TOKEN_BEGIN ? "bos_token" : "eos_token");
    return clt_chat_add_token(out, id, trained);
}

void clt_chat_text_clear(clt_chat_text *out)
{
    out->text.length = 0;
    out->count = 0;
}

void clt_chat_text_free(clt_chat_text *text)
{
    clt_str_free(&text->text);
    free(text->part);
    *text = (clt_chat_text){0};
}

void clt_chat_tokens_free(clt_chat_tokens *tokens)
{
    free(tokens->ids.id);
    free(tokens->trained);
    *tokens = (clt_chat_tokens){0};
}

/* --- turns --- */

/* A conversation; `turn` does not contain its system turn. */
typedef struct talk {
    const clt_chat_turn *turn;
    size_t count;
    const clt_json *tools; /* NULL: none */
} talk;

static clt_status add_bytes(clt_chat_text *out, const char *from, size_t size, bool trained)
{
    clt_str_append_n(&out->text, from, size);
    return size == 0 ? CLT_OK : add_part(out, (clt_chat_part){.id = -1, .trained = trained});
}

/* Appends the text of a turn, without white space around it where the template says so. */
static clt_status add_content(const clt_chat_template *chat, const clt_chat_turn *turn, clt_chat_text *out)
{
    static const char space[] = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
    const char *from = turn->text, *end = from + strlen(from);
    if (chat->trim || (chat->trim_answers && turn->role == CLT_CHAT_ASSISTANT)) {
        from += strspn(from, space);
        while (end > from && strchr(space, end[-1]))
            end--;
    }
    return add_bytes(out, from, (size_t)(end - from), turn->trained);
}

/* True for a turn of the user whose text is not a tool's answer. */
static bool is_query(const clt_chat_turn *turn)
{
    static const char open[] = "<tool_response>";
    return turn->role == CLT_CHAT_USER && !(strncmp(turn->text, open, sizeof open - 1) == 0 &&
                                            clt_ends_with(turn->text, "</tool_response>"));
}

/* True if turn i comes after the user's last turn. */
static bool answers_last(const talk *t, size_t i)
{
    size_t last = t->count;
    for (size_t k = 0; k < t->count; k++)
        last = is_query(&t->turn[k]) ? k : last;
    return last < i;
}

/* A piece of a text. */
typedef struct piece {
    const char *from;
    size_t size;
} piece;

static piece without_lines(piece p, bool before, bool after)
{
    for (; before && p.size > 0 && *p.from == '\n'; p.size--)
        p.from++;
    while (after && p.size > 0 && p.from[p.size - 1] == '\n')
        p.size--;
    return p;
}

static piece after_last(piece p, const char *mark)
{
    size_t length = strlen(mark);
    for (size_t at = p.size; at >= length; at--)
        if (strncmp(p.from + at - length, mark, length) == 0)
            return (piece){p.from + at, p.size - at};
    return p;
}

/* Divides an answer into the content of its block <think> and the rest. */
static void split_thought(const clt_chat_turn *turn, piece *thought, piece *rest)
{
    const char *end = strstr(turn->text, "</think>");
    *rest = (piece){turn->text, strlen(turn->text)};
    *thought = (piece){turn->reasoning, turn->reasoning ? strlen(turn->reasoning) : 0};
    if (turn->reasoning || !end)
        return;
    *thought = without_lines((piece){turn->text, (size_t)(end - turn->text)}, false, true);
    *thought = without_lines(after_last(*thought, "<think>"), true, false);
    *rest = without_lines(after_last(*rest, "</think>"), true, false);
}

/* Appends an answer of a template with thoughts, without the markers around it. *text: whether the answer
 * has a text besides its thoughts. */
static clt_status add_thought(const clt_chat_rules *rules, const talk *t, size_t i, clt_chat_text *out,
                              bool *text)
{
    const clt_chat_turn *turn = &t->turn[i];
    piece thought, rest;
    split_thought(turn, &thought, &rest);
    *text = rest.size > 0;
    if (answers_last(t, i) && (i + 1 == t->count || thought.size > 0)) {
        thought = without_lines(thought, true, true);
        rest = without_lines(rest, true, false);
        bool trained = turn->trained && !(rules->chat->no_thought && thought.size == 0);
        CLT_TRY(clt_chat_add_text(out, "<think>\n", (clt_chat_part){.marker = true, .trained = trained}));
        CLT_TRY(add_bytes(out, thought.from, thought.size, turn->trained));
        CLT_TRY(
            clt_chat_add_text(out, "\n</think>\n\n", (clt_chat_part){.marker = true, .trained = trained}));
    }
    return add_bytes(out, rest.from, rest.size, turn->trained);
}

static clt_status add_end(const clt_chat_rules *rules, const char *marker, bool trained, clt_chat_text *out)
{
    const clt_chat_part end = {.marker = true, .trained = trained};
    return marker ? clt_chat_add_text(out, marker, end)
                  : clt_chat_add_role(rules, CLT_TOKEN_END_OF_TEXT, trained, out);
}

/* Appends the text that follows a turn. */
static clt_status add_close(const clt_chat_rules *rules, const clt_chat_turn *turn, clt_chat_text *out)
{
    const clt_chat_template *chat = rules->chat;
    if (turn->role != CLT_CHAT_ASSISTANT && chat->close[turn->role])
        return clt_chat_add_text(out, chat->close[turn->role], template_text);
    CLT_TRY(add_end(rules, turn->role == CLT_CHAT_ASSISTANT ? chat->end : NULL, turn->trained, out));
    return clt_chat_add_text(out, chat->after, template_text);
}

static clt_status add_assistant(const clt_chat_rules *rules, const talk *t, size_t i, clt_chat_text *out)
{
    const clt_chat_template *chat = rules->chat;
    const clt_chat_turn *turn = &t->turn[i];
    bool text = turn->text[0] != '\0', mistral = chat->tools == CLT_CHAT_TOOLS_MISTRAL;
    /* in the templates of Llama and Mistral, a turn with calls has no text */
    bool alone = turn->calls && (chat->tools == CLT_CHAT_TOOLS_LLAMA || mistral);
    CLT_TRY(clt_chat_add_text(out, mistral && alone ? "" : chat->open[CLT_CHAT_ASSISTANT], template_text));
    if (chat->thinks)
        CLT_TRY(add_thought(rules, t, i, out, &text));
    else if (!alone)
        CLT_TRY(add_content(chat, turn, out));
    if (turn->calls)
        CLT_TRY(clt_chat_add_calls(chat, turn, text, out));
    return add_close(rules, turn, out);
}

static clt_status add_turn(const clt_chat_rules *rules, const talk *t, size_t i, clt_chat_text *out)
{
    const clt_chat_template *chat = rules->chat;
    const clt_chat_turn *turn = &t->turn[i];
    if (turn->role == CLT_CHAT_TOOL)
        return clt_chat_add_answer(chat, t->turn, t->count, i, out);
    if (turn->role == CLT_CHAT_ASSISTANT)
        return add_assistant(rules, t, i, out);
    if (turn->role == CLT_CHAT_USER && t->tools)
        CLT_TRY(clt_chat_add_tools_user(chat, t->tools, t->turn, t->count, i, out));
    else
        CLT_TRY(clt_chat_add_text(out, chat->open[turn->role], template_text));
    CLT_TRY(add_content(chat, turn, out));
    return add_close(rules, turn, out);
}

/* Appends the system turn, with the description of tools. `own`: the conversation's system turn; NULL: it
 * has none, and the text comes from the config or the template. */
static clt_status add_system(const clt_chat_rules *rules, const clt_chat_turn *own, const clt_json *tools,
                             clt_chat_text *out)
{
    const clt_chat_template *chat = rules->chat;
    bool described = tools && chat->tools == CLT_CHAT_TOOLS_QWEN;
    clt_chat_turn turn = {.role = CLT_CHAT_SYSTEM, .text = *rules->system ? rules->system : chat->system};
    if (own)
        turn = *own;
    if (!turn.text && !described)
        return CLT_OK;
    if (chat->no_system)
        CLT_FAIL(CLT_EDATA,
                 "the chat template %s has no system turn; put its text into the first turn of the user",
                 chat->name);
    CLT_TRY(clt_chat_add_text(out, chat->open[CLT_CHAT_SYSTEM], template_text));
    if (tools && chat->tools == CLT_CHAT_TOOLS_LLAMA)
        CLT_TRY(clt_chat_add_text(out, "Environment: ipython\n", template_text));
    CLT_SCOPED(clt_str) dated = {0};
    CLT_TRY(clt_chat_template_dated(chat, rules->date, &dated));
    CLT_TRY(clt_chat_add_text(out, chat->dated ? dated.text : "", template_text));
    if (turn.text)
        CLT_TRY(add_content(chat, &turn, out));
    if (described)
        CLT_TRY(clt_chat_add_tools_qwen(tools, turn.text != NULL, out));
    return add_close(rules, &turn, out);
}

static clt_status check_order(const clt_chat_template *chat, const clt_chat_turn *turn, size_t count)
{
    size_t place = 0; /* number of turns so far, without calls and answers of tools */
    for (size_t i = 0; i < count && chat->alternate; i++) {
        if (turn[i].role == CLT_CHAT_TOOL || turn[i].calls)
            continue;
        if (turn[i].role != (place % 2 == 0 ? CLT_CHAT_USER : CLT_CHAT_ASSISTANT))
            CLT_FAIL(CLT_EDATA,
                     "turn %zu is not the %s's: with the chat template %s the user begins, and turns of user "
                     "and assistant alternate",
                     i + 1, place % 2 == 0 ? "user" : "assistant", chat->name);
        place++;
    }
    return CLT_OK;
}

clt_status clt_chat_add_turns(const clt_chat_rules *rules, const clt_chat_turn *turn, size_t count,
                              const clt_json *tools, bool question, clt_chat_text *out)
{
    const clt_chat_template *chat = rules->chat;
    if (!chat)
        CLT_FAIL(CLT_EDATA, "it is a conversation, but its chat template is not known: %s; set data.template",
                 rules->why_none);
    bool system = count > 0 && turn[0].role == CLT_CHAT_SYSTEM;
    const talk t = {turn + system, count - system, tools};
    CLT_TRY(clt_chat_check_tools(chat, t.turn, t.count, tools));
    if (!system || !chat->no_system) /* add_system refuses a system turn that the template lacks */
        CLT_TRY(check_order(chat, t.turn, t.count));
    if (chat->begin)
        CLT_TRY(clt_chat_add_role(rules, CLT_TOKEN_BEGIN, false, out));
    CLT_TRY(add_system(rules, system ? turn : NULL, tools, out));
    for (size_t i = 0; i < t.count; i++)
        CLT_TRY(add_turn(rules, &t, i, out));
    if (question)
        CLT_TRY(clt_chat_add_text(out, chat->open[CLT_CHAT_ASSISTANT], template_text));
    return question && chat->no_thought ? clt_chat_add_text(out, "<think>\n\n</think>\n\n", template_text)
                                        : CLT_OK;
}

clt_status clt_chat_question(const clt_chat_rules *rules, const char *text, clt_chat_text *out)
{
    const clt_chat_turn turn = {.role = CLT_CHAT_USER, .text = text};
    clt_chat_text_clear(out);
    return clt_chat_add_turns(rules, &turn, 1, NULL, true, out);
}

/* --- tokens --- */

/* *id: the special token with this name; -1: there is none. */
static clt_status find_token(const clt_tokenizer *tokenizer, const char *name, int64_t *id)
{
    CLT_FREED uint32_t *owned = NULL;
    CLT_SCOPED(clt_encoder) *encoder = NULL;
    clt_ids ids = {0};
    const clt_text_range all = {0, strlen(name)};
    CLT_TRY(clt_encoder_create(tokenizer, &encoder));
    clt_status status = clt_encode_marked(encoder, name, all.end, &all, 1, CLT_TEXT_BEGINS, &ids);
    owned = ids.id;
    bool one = status == CLT_OK && ids.count == 1 && clt_tokenizer_begins_special(tokenizer, name, all.end);
    *id = one ? (int64_t)owned[0] : -1;
    return status;
}

clt_status clt_chat_end_token(const clt_chat_rules *rules, int64_t *id)
{
    *id = clt_tokenizer_end_of_text(rules->tokenizer);
    return rules->chat->end ? find_token(rules->tokenizer, rules->chat->end, id) : CLT_OK;
}

clt_status clt_chat_rules_check(const clt_chat_rules *rules)
{
    CLT_SCOPED(clt_str) missing = {0};
    const clt_chat_template *chat = rules->chat;
    if (!chat)
        return CLT_OK;
    for (int i = 0; i < CLT_CHAT_MARKERS && chat->markers[i]; i++) {
        int64_t id;
        CLT_TRY(find_token(rules->tokenizer, chat->markers[i], &id));
        if (id < 0)
            clt_str_printf(&missing, "%s%s", missing.length ? ", " : "", chat->markers[i]);
    }
    if (!chat->end && clt_tokenizer_end_of_text(rules->tokenizer) < 0)
        clt_str_printf(&missing, "%seos_token", missing.length ? ", " : "");
    if (chat->begin && clt_tokenizer_role(rules->tokenizer, CLT_TOKEN_BEGIN) < 0)
        clt_str_printf(&missing, "%sbos_token", missing.length ? ", " : "");
    CLT_TRY(clt_str_check(&missing));
    if (missing.length)
        CLT_FAIL(CLT_EDATA,
                 "the chat template %s needs special tokens that the tokenizer (%s) lacks: %s; use the "
                 "tokenizer of the model, or another data.template, such as plain",
                 chat->name, clt_tokenizer_description(rules->tokenizer), missing.text);
    if (chat->dated && !chat->date && !*rules->date)
        CLT_FAIL(CLT_EDATA,
                 "the chat template %s writes the current day into the system turn; give the day that the "
                 "model shall see by data.date, such as \"26 Jul 2024\"",
                 chat->name);
    return CLT_OK;
}

/* Parts [first, last) of a text, which are encoded together. */
typedef struct run {
    size_t first, last, begin, end; /* begin, end: bytes of the text */
} run;

/* The run that begins with part `first`. It ends before the next part that is encoded separately, is a
 * token, or begins with a special token: no token crosses the beginning of such a part. */
static run run_of(const clt_tokenizer *t, const clt_chat_text *text, size_t first)
{
    size_t begin = first > 0 ? text->part[first - 1].end : 0;
    run r = {first, first + 1, begin, text->part[first].end};
    while (r.last < text->count) {
        const clt_chat_part *part = &text->part[r.last];
        if (part->apart || part->id >= 0 || text->part[r.last - 1].id >= 0 ||
            (part->marker && clt_tokenizer_begins_special(t, text->text.text + r.end, part->end - r.end)))
            break;
        r.end = part->end;
        r.last++;
    }
    return r;
}

static clt_status mark_trained(clt_chat_tokens *out, size_t from, size_t to, bool trained)
{
    CLT_TRY(clt_grow(&out->trained, &out->capacity, to, 1, "the trained tokens of a sample"));
    for (size_t i = from; i < to; i++)
        out->trained[i] = trained;
    return CLT_OK;
}

/* How the encoder treats the beginning of part `first`. In a record that is not a conversation, only the
 * tokenizer's own tokens precede the text, so that the text counts as beginning after them. */
static clt_text_start start_of(const clt_chat_text *text, size_t first)
{
    bool any = first > 0 && text->part[first - 1].end > 0;
    if (!any && (first == 0 || text->part[first].apart))
        return CLT_TEXT_BEGINS;
    return text->part[first - 1].id >= 0 ? CLT_TEXT_AFTER_TOKEN : CLT_TEXT_CONTINUES;
}

/* Encodes the text of the run up to byte `end`. */
static clt_status encode_to(clt_encoder *encoder, const clt_chat_text *text, const run *r, size_t end,
                            clt_ids *out)
{
    CLT_FREED clt_text_range *marked = NULL;
    size_t n = 0, at = r->begin;
    CLT_TRY(clt_alloc(&marked, r->last - r->first, sizeof *marked, "the markers of a sample"));
    for (size_t i = r->first; i < r->last && at < end; at = text->part[i++].end)
        if (text->part[i].marker)
            marked[n++] = (clt_text_range){at - r->begin, text->part[i].end - r->begin};
    return clt_encode_marked(encoder, text->text.text + r->begin, end - r->begin, marked, n,
                             start_of(text, r->first), out);
}

/* Encodes a run as one text. To find where a part ends, the run's text up to that end is encoded, too: the
 * part's tokens end where this list of tokens first differs from the list of the whole run. */
static clt_status encode_run(clt_encoder *encoder, const clt_chat_text *text, const run *r,
                             clt_chat_tokens *out)
{
    size_t first = out->ids.count, from = first;
    CLT_TRY(encode_to(encoder, text, r, r->end, &out->ids));
    for (size_t i = r->first; i < r->last; i++) {
        size_t to = out->ids.count;
        bool trained = text->part[i].trained;
        if (i + 1 < r->last && text->part[i + 1].trained == trained)
            continue;
        if (i + 1 < r->last) {
            clt_ids part = {0};
            clt_status status = encode_to(encoder, text, r, text->part[i].end, &part);
            for (to = first; to < out->ids.count && to - first < part.count; to++)
                if (part.id[to - first] != out->ids.id[to])
                    break;
            free(part.id);
            CLT_TRY(status);
            to = to < from ? from : to;
        }
        CLT_TRY(mark_trained(out, from, to, trained));
        from = to;
    }
    return CLT_OK;
}

clt_status clt_chat_encode(clt_encoder *encoder, const clt_chat_rules *rules, const clt_chat_text *text,
                           clt_chat_tokens *out)
{
    for (size_t i = 0; i < text->count;) {
        run r = run_of(rules->tokenizer, text, i);
        const clt_chat_part *part = &text->part[i];
        if (part->id >= 0) {
            CLT_TRY(clt_grow(&out->ids.id, &out->ids.capacity, out->ids.count + 1, sizeof *out->ids.id,
                             "the tokens of a sample"));
            out->ids.id[out->ids.count++] = (uint32_t)part->id;
            CLT_TRY(mark_trained(out, out->ids.count - 1, out->ids.count, part->trained));
        } else {
            CLT_TRY(encode_run(encoder, text, &r, out));
        }
        i = r.last;
    }
    return CLT_OK;
}
