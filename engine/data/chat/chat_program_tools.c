/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes tools, calls and their answers into the Jinja program of a template: the same text as chat_tools.c
 * writes for training. */
#include <string.h>

#include "engine/data/chat/chat_parts.h"
#include "engine/data/chat/chat_program.h"

/* --- before the turns --- */

static const char each_qwen[] =
    "{% for tool in tools %}{% set told.text = told.text + '\\n' + (tool|tojson) %}{% endfor %}";

static const char each_llama[] =
    "{% for tool in tools %}{% set told.text = told.text + (tool|tojson(indent=4)) + '\\n\\n' %}{% endfor %}"
    "{% set told.first = 1 if messages[0]['role'] == 'system' else 0 %}"
    "{% if messages|length == told.first or messages[told.first]['role'] != 'user' %}"
    "{{ raise_exception('tools are written into the first turn, and that is not of the user') }}{% endif %}";

/* Members that are texts are written as they are; `return` is omitted. */
static const char each_mistral[] =
    "{% for tool in tools %}"
    "{% set told.text = told.text + '{\"type\": \"function\", \"function\": {' %}"
    "{% for key, value in tool['function'].items() if key != 'return' %}"
    "{% set told.text = told.text + '\"' + key + '\": ' + ('\"' + value + '\"' if value is string else "
    "value|tojson) + ('' if loop.last else ', ') %}{% endfor %}"
    "{% set told.text = told.text + '}}' + (']' if loop.last else ', ') %}{% endfor %}"
    "{% for message in messages %}{% if message['role'] == 'user' %}{% set told.last = message['content'] %}"
    "{% endif %}{% endfor %}";

void clt_program_tell(clt_str *out, clt_chat_tools kind)
{
    static const struct {
        const char *begin, *each, *end;
    } texts[] = {[CLT_CHAT_TOOLS_QWEN] = {CLT_TOOLS_QWEN_BEGIN, each_qwen, CLT_TOOLS_QWEN_END},
                 [CLT_CHAT_TOOLS_LLAMA] = {CLT_TOOLS_LLAMA_BEGIN, each_llama, ""},
                 [CLT_CHAT_TOOLS_MISTRAL] = {"[AVAILABLE_TOOLS] [", each_mistral, "[/AVAILABLE_TOOLS]"}};
    clt_str_append(out, "{% set told = namespace(text='', first=0, last='') %}{% if tools %}"
                        "{% set told.text = ");
    clt_program_string(out, texts[kind].begin);
    clt_str_append(out, " %}");
    clt_str_append(out, texts[kind].each);
    clt_str_append(out, "{% set told.text = told.text + ");
    clt_program_string(out, texts[kind].end);
    clt_str_append(out, " %}{% endif %}");
}

/* --- turns of the system and the user --- */

const char *clt_program_before(clt_chat_tools kind, clt_chat_role role)
{
    if (kind == CLT_CHAT_TOOLS_LLAMA && role == CLT_CHAT_SYSTEM)
        return "('Environment: ipython\\n' if tools else '')";
    return NULL;
}

const char *clt_program_told(clt_chat_tools kind, clt_chat_role role)
{
    if (kind == CLT_CHAT_TOOLS_QWEN && role == CLT_CHAT_SYSTEM)
        return "('\\n\\n' + told.text if tools and loop.first else '')";
    if (kind == CLT_CHAT_TOOLS_LLAMA && role == CLT_CHAT_USER)
        return "(told.text if tools and loop.index0 == told.first else '')";
    if (kind == CLT_CHAT_TOOLS_MISTRAL && role == CLT_CHAT_USER)
        return "(told.text if tools and message['content'] == told.last else '')";
    return NULL;
}

/* --- calls and answers --- */

/* `text` is the answer's text. If it is not empty, the first call begins a new line. `raw`: arguments that
 * are a text are JSON already. */
#define CALLS_QWEN(arguments)                                                                                \
    "{% if message['tool_calls'] %}{% for each in message['tool_calls'] %}"                                  \
    "{% set call = each['function'] if each['function'] else each %}"                                        \
    "{{ ('\\n' if text or not loop.first else '') + '<tool_call>\\n{\"name\": \"' + call['name'] + '\", "    \
    "\"arguments\": ' + " arguments " + '}\\n</tool_call>' }}{% endfor %}{% endif %}"

static const char calls_llama[] =
    "{% if message['tool_calls']|length != 1 %}{{ raise_exception('an answer calls one tool at a time') }}"
    "{% endif %}{% set call = message['tool_calls'][0]['function'] %}"
    "{{ '{\"name\": \"' + call['name'] + '\", \"parameters\": ' + (call['arguments']|tojson) + '}' }}";

static const char calls_mistral[] =
    "{{ '[TOOL_CALLS] [' }}{% for call in message['tool_calls'] %}"
    "{% if not call['id'] or call['id']|length != 9 %}"
    "{{ raise_exception('the id of a call has 9 characters') }}{% endif %}"
    "{% set body = call['function']|tojson %}"
    "{{ body[:-1] + ', \"id\": \"' + call['id'] + '\"}' + (']' if loop.last else ', ') }}{% endfor %}";

const char *clt_program_calls(clt_chat_tools kind, bool raw)
{
    if (kind == CLT_CHAT_TOOLS_QWEN)
        return raw ? CALLS_QWEN(
                         "(call['arguments'] if call['arguments'] is string else call['arguments']|tojson)")
                   : CALLS_QWEN("(call['arguments']|tojson)");
    return kind == CLT_CHAT_TOOLS_LLAMA ? calls_llama : calls_mistral;
}

const char *clt_program_answers(clt_chat_tools kind)
{
    static const char llama[] =
        "{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + (message['content']|tojson) + "
        "'<|eot_id|>' }}";
    static const char qwen[] =
        "{% if loop.first or messages[loop.index0 - 1]['role'] != 'tool' %}{{ '<|im_start|>user' }}{% endif "
        "%}"
        "{{ '\\n<tool_response>\\n' + message['content'] + '\\n</tool_response>' }}"
        "{% if loop.last or messages[loop.index0 + 1]['role'] != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}";
    static const char mistral[] =
        "{% if not message['tool_call_id'] or message['tool_call_id']|length != 9 %}"
        "{{ raise_exception('tool_call_id has 9 characters') }}{% endif %}"
        "{{ '[TOOL_RESULTS] {\"content\": ' + message['content'] + ', \"call_id\": \"' + "
        "message['tool_call_id'] + '\"}[/TOOL_RESULTS]' }}";
    return kind == CLT_CHAT_TOOLS_QWEN ? qwen : kind == CLT_CHAT_TOOLS_LLAMA ? llama : mistral;
}
