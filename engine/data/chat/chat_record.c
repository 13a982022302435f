/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns records of JSON, in the forms that data sets for fine-tuning have, into parts of text. */
#include <stdlib.h>
#include <string.h>

#include "engine/data/chat/chat_parts.h"
#include "engine/json/json.h"

#define IGNORED_LABEL (-100) /* the label by which transformers marks a token that is not trained */

/* A conversation: its turns, and texts that were joined for them. */
typedef struct turns {
    clt_chat_turn *turn;
    size_t count, capacity;
    char **owned; /* (count) NULL where the text is borrowed */
    size_t owned_capacity;
} turns;

static void free_turns(turns *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->owned[i]);
    free(t->owned);
    free(t->turn);
}
CLT_SCOPED_VALUE(turns, free_turns)

/* --- messages --- */

/* Joins the texts of a content that is a list of {"type": "text", "text": TEXT}. */
static clt_status join_content(const clt_json *list, char **out)
{
    CLT_SCOPED(clt_str) all = {0};
    const char *type, *text;
    clt_str_append(&all, "");
    for (const clt_json *one = clt_json_first(list); one; one = clt_json_next(one)) {
        CLT_TRY(clt_fail_prefix(clt_json_text(one, "type", &type), "the list of a message's content"));
        if (strcmp(type, "text") != 0)
            CLT_FAIL(CLT_EDATA, "a message holds \"%s\", and only text can be trained on", type);
        CLT_TRY(clt_fail_prefix(clt_json_text(one, "text", &text), "the list of a message's content"));
        clt_str_append(&all, text);
    }
    CLT_TRY(clt_str_check(&all));
    return clt_str_take(&all, out);
}

static clt_status role_of(const char *word, clt_chat_role *out)
{
    static const struct {
        const char *word;
        clt_chat_role role;
    } roles[] = {{"system", CLT_CHAT_SYSTEM},       {"user", CLT_CHAT_USER}, {"human", CLT_CHAT_USER},
                 {"assistant", CLT_CHAT_ASSISTANT}, {"tool", CLT_CHAT_TOOL}, {"gpt", CLT_CHAT_ASSISTANT}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(roles[i].word, word) == 0) {
            *out = roles[i].role;
            return CLT_OK;
        }
    }
    CLT_FAIL(CLT_EDATA, "the role \"%.60s\" is not one of system, user (human), assistant (gpt) and tool",
             word);
}

/* Sets *trained: whether a message is trained. Its "weight" (0 or 1) or "train" (true or false) says so; a
 * message without them is trained. */
static clt_status weight_of(const clt_json *message, bool *trained)
{
    const clt_json *weight = clt_json_get(message, "weight"), *train = clt_json_get(message, "train");
    *trained = true;
    if (clt_json_typeof(train) == CLT_JSON_BOOL)
        *trained = clt_json_bool(train);
    else if (train)
        return clt_json_wrong_type(train, "train", "true or false");
    if (!weight)
        return CLT_OK;
    if (clt_json_typeof(weight) != CLT_JSON_NUMBER ||
        (clt_json_number(weight) != 0 && clt_json_number(weight) != 1))
        CLT_FAIL(CLT_EDATA, "the \"weight\" of a message must be 0 or 1");
    *trained = *trained && clt_json_number(weight) == 1;
    return CLT_OK;
}

/* Adds a turn. `owned`: its text if it must be freed, else NULL; the list takes ownership, also on
 * failure. */
static clt_status add_turn(turns *t, clt_chat_turn turn, char *owned)
{
    clt_status status = clt_grow(&t->owned, &t->owned_capacity, t->count + 1, sizeof *t->owned, "turns");
    if (status == CLT_OK)
        status = clt_grow(&t->turn, &t->capacity, t->count + 1, sizeof *t->turn, "turns");
    if (status != CLT_OK) {
        free(owned);
        return status;
    }
    t->owned[t->count] = owned;
    turn.text = owned ? owned : turn.text;
    t->turn[t->count++] = turn;
    return CLT_OK;
}

/* The tool calls of a message; *calls is NULL if it has none. */
static clt_status calls_of(const clt_json *message, clt_chat_role role, const clt_json **calls)
{
    const clt_json *list = clt_json_given(message, "tool_calls");
    *calls = NULL;
    if (!list)
        return CLT_OK;
    if (clt_json_typeof(list) != CLT_JSON_ARRAY)
        return clt_json_wrong_type(list, "tool_calls", "a list of calls");
    if (clt_json_count(list) == 0)
        return CLT_OK;
    if (role != CLT_CHAT_ASSISTANT)
        CLT_FAIL(CLT_EDATA, "it has \"tool_calls\", and only the assistant calls tools");
    *calls = list;
    return CLT_OK;
}

/* Finds a member that may be missing or null; then *out is NULL. */
static clt_status optional_text(const clt_json *message, const char *name, const char **out)
{
    *out = NULL;
    return clt_json_given(message, name) ? clt_json_text(message, name, out) : CLT_OK;
}

/* Adds one message. `role_key`, `text_key`: names of its members. `trained`: answers may be trained. */
static clt_status add_message(const clt_json *message, const char *role_key, const char *text_key,
                              bool trained, turns *out)
{
    const char *word;
    char *owned = NULL;
    clt_chat_turn turn = {.text = ""};
    bool wanted;
    if (clt_json_typeof(message) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_EDATA, "it is %s, and a message is an object",
                 clt_json_type_name(clt_json_typeof(message)));
    CLT_TRY(clt_json_text(message, role_key, &word));
    CLT_TRY(role_of(word, &turn.role));
    CLT_TRY(weight_of(message, &wanted));
    CLT_TRY(calls_of(message, turn.role, &turn.calls));
    CLT_TRY(optional_text(message, "tool_call_id", &turn.call_id));
    CLT_TRY(optional_text(message, "reasoning_content", &turn.reasoning));
    const clt_json *content = clt_json_get(message, text_key);
    bool silent = turn.calls && !clt_json_given(message, text_key);
    if (clt_json_typeof(content) == CLT_JSON_ARRAY && turn.role != CLT_CHAT_TOOL)
        CLT_TRY(join_content(content, &owned));
    else if (!silent)
        CLT_TRY(clt_json_text(message, text_key, &turn.text));
    if (turn.role == CLT_CHAT_ASSISTANT && !turn.calls && !(owned ? owned : turn.text)[0]) {
        free(owned);
        CLT_FAIL(CLT_EDATA, "the answer is empty");
    }
    turn.trained = trained && wanted && turn.role == CLT_CHAT_ASSISTANT;
    return add_turn(out, turn, owned);
}

static clt_status add_messages(const clt_json *record, const char *name, bool trained, turns *out)
{
    const clt_json *list = clt_json_get(record, name);
    bool share_gpt = strcmp(name, "conversations") == 0;
    if (clt_json_typeof(list) != CLT_JSON_ARRAY)
        return clt_json_wrong_type(list, name, "a list of messages");
    int number = 1;
    for (const clt_json *one = clt_json_first(list); one; one = clt_json_next(one), number++)
        CLT_TRY(clt_fail_prefix(
            add_message(one, share_gpt ? "from" : "role", share_gpt ? "value" : "content", trained, out),
            "message %d of \"%s\"", number, name));
    for (size_t i = 1; i < out->count; i++)
        if (out->turn[i].role == CLT_CHAT_SYSTEM)
            CLT_FAIL(CLT_EDATA, "message %zu of \"%s\" is a system turn, which stands at the beginning only",
                     i + 1, name);
    return CLT_OK;
}

/* Applies rules->trained to the turns of the assistant, then appends the record's conversation. The record
 * may have "tools", a list. */
static clt_status add_conversation(const clt_chat_rules *rules, const clt_json *record, turns *t,
                                   clt_chat_text *out)
{
    const clt_json *tools = clt_json_given(record, "tools");
    if (tools && clt_json_typeof(tools) != CLT_JSON_ARRAY)
        return clt_json_wrong_type(tools, "tools", "a list of tools");
    if (clt_json_count(tools) == 0)
        tools = NULL;
    size_t last = t->count;
    for (size_t i = 0; i < t->count; i++)
        last = t->turn[i].role == CLT_CHAT_ASSISTANT && t->turn[i].trained ? i : last;
    if (last == t->count)
        CLT_FAIL(CLT_EDATA, "it has no answer of the assistant to train on");
    for (size_t i = 0; i < t->count && rules->trained == CLT_CHAT_LAST; i++)
        t->turn[i].trained = i == last;
    return clt_chat_add_turns(rules, t->turn, t->count, tools, false, out);
}

/* --- forms of records --- */

static clt_status read_messages(const clt_chat_rules *rules, const clt_json *record, const char *name,
                                clt_chat_text *out)
{
    CLT_SCOPED(turns) t = {0};
    CLT_TRY(add_messages(record, name, true, &t));
    return add_conversation(rules, record, &t, out);
}

/* Appends the tokens that the tokenizer adds before every text. */
static clt_status add_before(const clt_chat_rules *rules, clt_chat_text *out)
{
    size_t count;
    const uint32_t *before = clt_tokenizer_before(rules->tokenizer, &count);
    for (size_t i = 0; i < count; i++)
        CLT_TRY(clt_chat_add_token(out, before[i], false));
    return CLT_OK;
}

/* Appends the tokens that the tokenizer adds after a text, and its end-of-text token. */
static clt_status add_after(const clt_chat_rules *rules, clt_chat_text *out)
{
    size_t count;
    const uint32_t *after = clt_tokenizer_after(rules->tokenizer, &count);
    int64_t end = clt_tokenizer_end_of_text(rules->tokenizer);
    for (size_t i = 0; i < count; i++)
        CLT_TRY(clt_chat_add_token(out, after[i], true));
    if (end >= 0 && (count == 0 || after[count - 1] != (uint64_t)end))
        CLT_TRY(clt_chat_add_token(out, end, true));
    return CLT_OK;
}

static clt_status add_pair(const clt_chat_rules *rules, const char *prompt, const char *completion,
                           clt_chat_text *out)
{
    if (!*completion)
        CLT_FAIL(CLT_EDATA, "the completion is empty");
    CLT_TRY(add_before(rules, out));
    CLT_TRY(clt_chat_add_text(out, prompt, (clt_chat_part){.apart = true}));
    CLT_TRY(clt_chat_add_text(out, completion, (clt_chat_part){.apart = true, .trained = true}));
    return add_after(rules, out);
}

static clt_status read_pair(const clt_chat_rules *rules, const clt_json *record, clt_chat_text *out)
{
    const char *prompt, *completion;
    if (clt_json_typeof(clt_json_get(record, "prompt")) == CLT_JSON_ARRAY &&
        clt_json_get(record, "completion")) {
        CLT_SCOPED(turns) t = {0};
        CLT_TRY(add_messages(record, "prompt", false, &t));
        CLT_TRY(add_messages(record, "completion", true, &t));
        return add_conversation(rules, record, &t, out);
    }
    CLT_TRY(clt_json_text(record, "prompt", &prompt));
    CLT_TRY(clt_json_text(record, "completion", &completion));
    return add_pair(rules, prompt, completion, out);
}

/* With a template, instruction and input become a question; without one, they are inserted into Alpaca's
 * text. */
static clt_status read_alpaca(const clt_chat_rules *rules, const clt_json *record, clt_chat_text *out)
{
    const char *instruction, *input = "", *output;
    CLT_SCOPED(clt_str) prompt = {0};
    CLT_TRY(clt_json_text(record, "instruction", &instruction));
    CLT_TRY(clt_json_text(record, "output", &output));
    if (clt_json_get(record, "input"))
        CLT_TRY(clt_json_text(record, "input", &input));
    if (!*output)
        CLT_FAIL(CLT_EDATA, "the answer (\"output\") is empty");
    if (rules->chat) {
        clt_str_printf(&prompt, "%s%s%s", instruction, *input ? "\n\n" : "", input);
        CLT_TRY(clt_str_check(&prompt));
        const clt_chat_turn both[] = {{.role = CLT_CHAT_USER, .text = prompt.text},
                                      {.role = CLT_CHAT_ASSISTANT, .text = output, .trained = true}};
        return clt_chat_add_turns(rules, both, 2, NULL, false, out);
    }
    clt_str_printf(&prompt,
                   "Below is an instruction that describes a task%s. Write a response that "
                   "appropriately completes the request.\n\n### Instruction:\n%s\n\n",
                   *input ? ", paired with an input that provides further context" : "", instruction);
    if (*input)
        clt_str_printf(&prompt, "### Input:\n%s\n\n", input);
    clt_str_append(&prompt, "### Response:\n");
    CLT_TRY(clt_str_check(&prompt));
    return add_pair(rules, prompt.text, output, out);
}

static clt_status read_text(const clt_chat_rules *rules, const clt_json *record, clt_chat_text *out)
{
    const char *text;
    CLT_TRY(clt_json_text(record, "text", &text));
    if (!*text)
        CLT_FAIL(CLT_EDATA, "the text is empty");
    CLT_TRY(add_before(rules, out));
    CLT_TRY(clt_chat_add_text(out, text, (clt_chat_part){.apart = true, .trained = true}));
    return add_after(rules, out);
}

static clt_status read_ids(const clt_chat_rules *rules, const clt_json *record, clt_chat_text *out)
{
    const clt_json *ids = clt_json_get(record, "input_ids"), *labels = clt_json_get(record, "labels");
    int64_t vocab = clt_tokenizer_vocab(rules->tokenizer), id, label;
    if (clt_json_typeof(ids) != CLT_JSON_ARRAY)
        return clt_json_wrong_type(ids, "input_ids", "a list of tokens");
    if (labels &&
        (clt_json_typeof(labels) != CLT_JSON_ARRAY || clt_json_count(labels) != clt_json_count(ids)))
        CLT_FAIL(CLT_EDATA, "its \"labels\" must be a list of numbers as long as \"input_ids\"");
    const clt_json *one = clt_json_first(ids), *of = clt_json_first(labels);
    for (size_t i = 0; one; one = clt_json_next(one), of = of ? clt_json_next(of) : NULL, i++) {
        if (!clt_json_int_within(one, 0, vocab - 1, &id))
            CLT_FAIL(CLT_EDATA, "token %zu of \"input_ids\" is not one of the tokenizer's %lld tokens", i + 1,
                     (long long)vocab);
        label = id;
        if (of && (!clt_json_int(of, &label) || (label != id && label != IGNORED_LABEL)))
            CLT_FAIL(CLT_EDATA, "label %zu is neither the token %lld nor %d", i + 1, (long long)id,
                     IGNORED_LABEL);
        CLT_TRY(clt_chat_add_token(out, id, label == id));
    }
    return CLT_OK;
}

static clt_status unknown_form(const clt_json *record)
{
    CLT_SCOPED(clt_str) names = {0};
    for (const clt_json *one = clt_json_first(record); one && names.length < 200; one = clt_json_next(one))
        clt_str_printf(&names, "%s%.60s", names.length ? ", " : "", clt_json_key(one));
    CLT_TRY(clt_str_check(&names));
    CLT_FAIL(CLT_EDATA,
             "it has neither messages, conversations, prompt with completion, instruction with output, text "
             "nor input_ids, but: %s",
             names.length ? names.text : "nothing");
}

static clt_status read_form(const clt_chat_rules *rules, const clt_json *record, clt_chat_text *out)
{
    static const char *const lists[] = {"messages", "conversations"};
    for (int i = 0; i < 2; i++)
        if (clt_json_get(record, lists[i]))
            return read_messages(rules, record, lists[i], out);
    if (clt_json_get(record, "prompt"))
        return read_pair(rules, record, out);
    if (clt_json_get(record, "instruction"))
        return read_alpaca(rules, record, out);
    if (clt_json_get(record, "input_ids"))
        return read_ids(rules, record, out);
    return clt_json_get(record, "text") ? read_text(rules, record, out) : unknown_form(record);
}

clt_status clt_chat_read(const clt_chat_rules *rules, const char *line, size_t size, clt_chat_text *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    const clt_json *record;
    bool any = false;
    clt_chat_text_clear(out);
    CLT_TRY(clt_json_record(line, size, &doc, &record));
    CLT_TRY(read_form(rules, record, out));
    for (size_t i = 0; i < out->count; i++) {
        bool begin = i == 0 && out->part[i].id >= 0 &&
                     out->part[i].id == clt_tokenizer_role(rules->tokenizer, CLT_TOKEN_BEGIN);
        if (rules->trained == CLT_CHAT_ALL)
            out->part[i].trained = !begin;
        any = any || out->part[i].trained;
    }
    if (!any)
        CLT_FAIL(CLT_EDATA, "none of its tokens is to be trained on");
    return CLT_OK;
}
