/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes tools in conversations as the templates of published models do: their descriptions, the model's
 * calls, and the tools' answers. Values are written as by Python's json.dumps, which these templates use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/chat/chat_parts.h"

#define ID_LENGTH 9 /* number of characters of a call's id in Mistral's template */

static const clt_chat_part template_text = {.marker = true};

/* --- values as Python writes them --- */

/* Appends a number with the fewest digits that read back as the same number, in the form of Python's repr. */
static void put_double(clt_str *out, double value)
{
    char digits[40];
    int places = 0;
    do {
        snprintf(digits, sizeof digits, "%.*e", places, value);
    } while (strtod(digits, NULL) < value || strtod(digits, NULL) > value ? ++places < 17 : false);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        clt_str_append(out, digits);
    else
        clt_str_printf(out, "%.*f", places > exponent + 1 ? places - exponent : 1, value);
}

static void put_indent(clt_str *out, int indent, int depth)
{
    if (indent > 0)
        clt_str_printf(out, "\n%*s", indent * depth, "");
}

static void put_text(clt_str *out, const char *text)
{
    clt_str_append(out, "\"");
    for (; *text; text++) {
        static const char plain[] = "\"\\\n\r\t\f\b", after[] = "\"\\nrtfb";
        const char *special = strchr(plain, *text);
        if (special)
            clt_str_printf(out, "\\%c", after[special - plain]);
        else if ((unsigned char)*text < 0x20)
            clt_str_printf(out, "\\u%04x", (unsigned)*text);
        else
            clt_str_append_n(out, text, 1);
    }
    clt_str_append(out, "\"");
}

static clt_status put_value(clt_str *out, const clt_json *value, int indent, int depth);

static clt_status put_container(clt_str *out, const clt_json *value, int indent, int depth)
{
    bool object = clt_json_typeof(value) == CLT_JSON_OBJECT;
    const clt_json *first = clt_json_first(value);
    clt_str_append(out, object ? "{" : "[");
    for (const clt_json *v = first; v; v = clt_json_next(v)) {
        if (v != first)
            clt_str_append(out, indent > 0 ? "," : ", ");
        put_indent(out, indent, depth + 1);
        if (object) {
            put_text(out, clt_json_key(v));
            clt_str_append(out, ": ");
        }
        CLT_TRY(put_value(out, v, indent, depth + 1));
    }
    if (first)
        put_indent(out, indent, depth);
    clt_str_append(out, object ? "}" : "]");
    return clt_str_check(out);
}

/* Appends a value as json.dumps(value, ensure_ascii=False, indent=indent) does; indent 0: on one line. */
static clt_status put_value(clt_str *out, const clt_json *value, int indent, int depth)
{
    int64_t whole;
    switch (clt_json_typeof(value)) {
    case CLT_JSON_NULL:
        clt_str_append(out, "null");
        return CLT_OK;
    case CLT_JSON_BOOL:
        clt_str_append(out, clt_json_bool(value) ? "true" : "false");
        return CLT_OK;
    case CLT_JSON_NUMBER:
        if (clt_json_int(value, &whole))
            clt_str_printf(out, "%lld", (long long)whole);
        else if (fabs(clt_json_number(value)) >= 9e18)
            CLT_FAIL(CLT_EDATA, "a number in its tools or calls needs more than 64 bits");
        else
            put_double(out, clt_json_number(value));
        return CLT_OK;
    case CLT_JSON_STRING:
        put_text(out, clt_json_string(value));
        return CLT_OK;
    default:
        return put_container(out, value, indent, depth);
    }
}

static clt_status add_value(clt_chat_text *out, const clt_json *value, int indent, bool trained)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(put_value(&text, value, indent, 0));
    CLT_TRY(clt_str_check(&text));
    return clt_chat_add_text(out, text.text, (clt_chat_part){.trained = trained});
}

/* --- checks of calls --- */

/* The member of a call with this name, as a text; CLT_EDATA: it is missing or not a text. */
static clt_status text_member(const clt_json *object, const char *name, const char **out)
{
    const clt_json *value = clt_json_get(object, name);
    if (clt_json_typeof(value) != CLT_JSON_STRING || !*clt_json_string(value))
        CLT_FAIL(CLT_EDATA, "a call in \"tool_calls\" has no \"%s\" that is a text", name);
    *out = clt_json_string(value);
    return CLT_OK;
}

static clt_status check_id(const char *id, const char *what)
{
    int characters = 0;
    for (const char *c = id; *c; c++)
        characters += ((unsigned char)*c & 0xc0) != 0x80;
    if (characters != ID_LENGTH)
        CLT_FAIL(CLT_EDATA, "its %s '%.60s' does not have 9 characters, as Mistral's template wants", what,
                 id);
    return CLT_OK;
}

/* Finds the object with the name and the arguments of a call. Qwen's templates accept it without "function"
 * around it. */
static clt_status function_of(clt_chat_tools kind, const clt_json *call, const clt_json **out)
{
    const char *name;
    if (clt_json_typeof(call) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_EDATA, "an entry of \"tool_calls\" is %s, and must be an object",
                 clt_json_type_name(clt_json_typeof(call)));
    const clt_json *inner = clt_json_get(call, "function");
    *out = inner || kind == CLT_CHAT_TOOLS_LLAMA || kind == CLT_CHAT_TOOLS_MISTRAL ? inner : call;
    if (clt_json_typeof(*out) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_EDATA,
                 "an entry of \"tool_calls\" has no object \"function\" with a name and arguments");
    CLT_TRY(text_member(*out, "name", &name));
    const clt_json *arguments = clt_json_get(*out, "arguments");
    if (!arguments ||
        (clt_json_typeof(arguments) != CLT_JSON_OBJECT && clt_json_typeof(arguments) != CLT_JSON_STRING))
        CLT_FAIL(CLT_EDATA, "the call of '%.60s' has no \"arguments\" that are an object", name);
    if (kind != CLT_CHAT_TOOLS_MISTRAL)
        return CLT_OK;
    CLT_TRY(text_member(call, "id", &name));
    return check_id(name, "\"id\" of a call");
}

/* --- parts of a conversation --- */

clt_status clt_chat_check_tools(const clt_chat_template *chat, const clt_chat_turn *turn, size_t count,
                                const clt_json *tools)
{
    bool any = tools != NULL;
    for (size_t i = 0; i < count; i++)
        any = any || turn[i].calls || turn[i].role == CLT_CHAT_TOOL;
    if (any && !chat->tools)
        CLT_FAIL(
            CLT_EDATA,
            "it has tools, calls or answers of tools, for which the chat template %s has no form; qwen2.5, "
            "qwen3, llama3.1, llama3.2 and mistral-v0.3 have one",
            chat->name);
    for (const clt_json *v = clt_json_first(tools); v; v = clt_json_next(v)) {
        const clt_json *inner = chat->tools == CLT_CHAT_TOOLS_MISTRAL ? clt_json_get(v, "function") : v;
        if (clt_json_typeof(inner) != CLT_JSON_OBJECT)
            CLT_FAIL(CLT_EDATA, "an entry of its \"tools\" is not an object%s",
                     chat->tools == CLT_CHAT_TOOLS_MISTRAL ? " with an object \"function\"" : "");
    }
    if (chat->tools == CLT_CHAT_TOOLS_LLAMA && tools && (count == 0 || turn[0].role != CLT_CHAT_USER))
        CLT_FAIL(CLT_EDATA,
                 "it has tools, which the chat template %s writes into the first turn, and that is "
                 "not the user's",
                 chat->name);
    return CLT_OK;
}

clt_status clt_chat_add_tools_qwen(const clt_json *tools, bool after_text, clt_chat_text *out)
{
    if (after_text)
        CLT_TRY(clt_chat_add_text(out, "\n\n", template_text));
    CLT_TRY(clt_chat_add_text(out, CLT_TOOLS_QWEN_BEGIN, template_text));
    for (const clt_json *v = clt_json_first(tools); v; v = clt_json_next(v)) {
        CLT_TRY(clt_chat_add_text(out, "\n", template_text));
        CLT_TRY(add_value(out, v, 0, false));
    }
    return clt_chat_add_text(out, CLT_TOOLS_QWEN_END, template_text);
}

static clt_status add_tools_llama(const clt_json *tools, clt_chat_text *out)
{
    CLT_TRY(clt_chat_add_text(out, CLT_TOOLS_LLAMA_BEGIN, template_text));
    for (const clt_json *v = clt_json_first(tools); v; v = clt_json_next(v)) {
        CLT_TRY(add_value(out, v, 4, false));
        CLT_TRY(clt_chat_add_text(out, "\n\n", template_text));
    }
    return CLT_OK;
}

/* Mistral's template writes members that are texts without the escapes of JSON. */
static clt_status add_tools_mistral(const clt_json *tools, clt_chat_text *out)
{
    CLT_SCOPED(clt_str) text = {0};
    for (const clt_json *v = clt_json_first(tools); v; v = clt_json_next(v)) {
        const clt_json *function = clt_json_get(v, "function");
        const char *between = "";
        clt_str_printf(&text, "%s{\"type\": \"function\", \"function\": {", text.length ? ", " : "");
        for (const clt_json *m = clt_json_first(function); m; m = clt_json_next(m)) {
            if (strcmp(clt_json_key(m), "return") == 0)
                continue;
            clt_str_printf(&text, "%s\"%s\": ", between, clt_json_key(m));
            if (clt_json_typeof(m) == CLT_JSON_STRING)
                clt_str_printf(&text, "\"%s\"", clt_json_string(m));
            else
                CLT_TRY(put_value(&text, m, 0, 0));
            between = ", ";
        }
        clt_str_append(&text, "}}");
    }
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(clt_chat_add_text(out, "[AVAILABLE_TOOLS]", template_text));
    CLT_TRY(clt_chat_add_text(out, " [", (clt_chat_part){0}));
    CLT_TRY(clt_chat_add_text(out, text.text, (clt_chat_part){0}));
    CLT_TRY(clt_chat_add_text(out, "]", (clt_chat_part){0}));
    return clt_chat_add_text(out, "[/AVAILABLE_TOOLS]", template_text);
}

clt_status clt_chat_add_tools_user(const clt_chat_template *chat, const clt_json *tools,
                                   const clt_chat_turn *turn, size_t count, size_t i, clt_chat_text *out)
{
    size_t last = count;
    for (size_t k = 0; k < count; k++)
        last = turn[k].role == CLT_CHAT_USER ? k : last;
    if (chat->tools == CLT_CHAT_TOOLS_LLAMA && i == 0) {
        CLT_TRY(clt_chat_add_text(out, chat->open[CLT_CHAT_USER], template_text));
        return add_tools_llama(tools, out);
    }
    if (chat->tools == CLT_CHAT_TOOLS_MISTRAL && strcmp(turn[i].text, turn[last].text) == 0)
        /* Mistral's template compares texts: a turn whose text equals the last one's gets the tools, too */
        CLT_TRY(add_tools_mistral(tools, out));
    return clt_chat_add_text(out, chat->open[CLT_CHAT_USER], template_text);
}

/* --- calls --- */

/* Appends {"name": ..., "KEY": arguments}. `raw`: arguments that are a text are already JSON. */
static clt_status add_call(const clt_json *function, const char *key, bool raw, bool trained,
                           clt_chat_text *out)
{
    const clt_json *arguments = clt_json_get(function, "arguments");
    CLT_SCOPED(clt_str) text = {0};
    clt_str_printf(&text, "{\"name\": \"%s\", \"%s\": ", clt_json_string(clt_json_get(function, "name")),
                   key);
    if (raw && clt_json_typeof(arguments) == CLT_JSON_STRING)
        clt_str_append(&text, clt_json_string(arguments));
    else
        CLT_TRY(put_value(&text, arguments, 0, 0));
    clt_str_append(&text, "}");
    CLT_TRY(clt_str_check(&text));
    return clt_chat_add_text(out, text.text, (clt_chat_part){.trained = trained});
}

/* Appends a call in Mistral's form: the whole object "function", with the call's id as its last member. */
static clt_status add_call_mistral(const clt_json *call, const clt_json *function, bool trained,
                                   clt_chat_text *out)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(put_value(&text, function, 0, 0));
    text.length--; /* the brace */
    clt_str_printf(&text, ", \"id\": \"%s\"}", clt_json_string(clt_json_get(call, "id")));
    CLT_TRY(clt_str_check(&text));
    return clt_chat_add_text(out, text.text, (clt_chat_part){.trained = trained});
}

clt_status clt_chat_add_calls(const clt_chat_template *chat, const clt_chat_turn *turn, bool after_text,
                              clt_chat_text *out)
{
    const clt_chat_part marker = {.marker = true, .trained = turn->trained},
                        plain = {.trained = turn->trained};
    const clt_json *function, *first = clt_json_first(turn->calls);
    bool mistral = chat->tools == CLT_CHAT_TOOLS_MISTRAL, llama = chat->tools == CLT_CHAT_TOOLS_LLAMA;
    if (llama && clt_json_count(turn->calls) != 1)
        CLT_FAIL(CLT_EDATA, "it calls %zu tools in one message, and the chat template %s can write only one",
                 clt_json_count(turn->calls), chat->name);
    if (mistral) {
        CLT_TRY(clt_chat_add_text(out, "[TOOL_CALLS]", marker));
        CLT_TRY(clt_chat_add_text(out, " [", plain));
    }
    for (const clt_json *call = first; call; call = clt_json_next(call)) {
        CLT_TRY(function_of(chat->tools, call, &function));
        if (llama)
            return add_call(function, "parameters", false, turn->trained, out);
        if (mistral) {
            CLT_TRY(clt_chat_add_text(out, call == first ? "" : ", ", plain));
            CLT_TRY(add_call_mistral(call, function, turn->trained, out));
            continue;
        }
        CLT_TRY(clt_chat_add_text(out, call != first || after_text ? "\n" : "", marker));
        CLT_TRY(clt_chat_add_text(out, "<tool_call>\n", marker));
        CLT_TRY(add_call(function, "arguments", chat->thinks, turn->trained, out));
        CLT_TRY(clt_chat_add_text(out, "\n</tool_call>", marker));
    }
    return mistral ? clt_chat_add_text(out, "]", plain) : CLT_OK;
}

/* --- answers --- */

static clt_status add_answer_mistral(const clt_chat_turn *turn, clt_chat_text *out)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(check_id(turn->call_id ? turn->call_id : "", "\"tool_call_id\""));
    clt_str_printf(&text, " {\"content\": %s, \"call_id\": \"%s\"}", turn->text, turn->call_id);
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(clt_chat_add_text(out, "[TOOL_RESULTS]", template_text));
    CLT_TRY(clt_chat_add_text(out, text.text, (clt_chat_part){0}));
    return clt_chat_add_text(out, "[/TOOL_RESULTS]", template_text);
}

clt_status clt_chat_add_answer(const clt_chat_template *chat, const clt_chat_turn *turn, size_t count,
                               size_t i, clt_chat_text *out)
{
    if (chat->tools == CLT_CHAT_TOOLS_MISTRAL)
        return add_answer_mistral(&turn[i], out);
    if (chat->tools == CLT_CHAT_TOOLS_LLAMA) {
        CLT_SCOPED(clt_str) text = {0};
        put_text(&text, turn[i].text);
        CLT_TRY(clt_str_check(&text));
        CLT_TRY(clt_chat_add_text(out, "<|start_header_id|>ipython<|end_header_id|>\n\n", template_text));
        CLT_TRY(clt_chat_add_text(out, text.text, (clt_chat_part){0}));
        return clt_chat_add_text(out, chat->end, template_text);
    }
    if (i == 0 || turn[i - 1].role != CLT_CHAT_TOOL)
        CLT_TRY(clt_chat_add_text(out, "<|im_start|>user", template_text));
    CLT_TRY(clt_chat_add_text(out, "\n<tool_response>\n", template_text));
    CLT_TRY(clt_chat_add_text(out, turn[i].text, (clt_chat_part){0}));
    CLT_TRY(clt_chat_add_text(out, "\n</tool_response>", template_text));
    return i + 1 == count || turn[i + 1].role != CLT_CHAT_TOOL
               ? clt_chat_add_text(out, chat->close[CLT_CHAT_USER], template_text)
               : CLT_OK;
}
