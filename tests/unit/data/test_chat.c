/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples for fine-tuning: the forms of records and which part of each is trained, records that are
 * refused, special tokens in texts, samples that are too long, templates and their programs, packing, and
 * the fields of a row. Needs no device. ctest-labels: quick */
#include "tests/unit/data/data_test.h"

#include "engine/base/rng.h"
#include "engine/data/chat/chat_rows.h"
#include "engine/data/chat/chat_samples.h"
#include "engine/files/sha256.h"

#define TOKENIZERS CLT_TEST_SOURCE_DIR "/tests/golden/chat/"

/* A config for the file chats.jsonl of the test's folder. more: further members of its data section. */
static clt_config *config_by(const char *records, int context, const char *more, const char *template)
{
    char text[1600];
    clt_config *config = NULL;
    put_file("chats.jsonl", records, strlen(records));
    (void)snprintf(text, sizeof text,
                   "{\"model\":{\"type\":\"llama\",\"layers\":1,\"heads\":1,\"channels\":2,\"context\":%d},"
                   "\"data\":{\"type\":\"chat\",\"path\":\"%s\",\"tokenizer\":\"" TOKENIZERS
                   "gpt2\",\"split\":0,%s\"template\":\"%s\"}}",
                   context, in_dir("chats.jsonl"), more, template);
    if (clt_config_parse(text, "chat.json", NULL, 0, &config) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return config;
}

static clt_config *config_for(const char *records, int context, const char *more)
{
    return config_by(records, context, more, "chatml");
}

/* The text of a sample, with its trained parts in braces. */
static void show(const clt_chat_samples *s, int64_t i, clt_str *out)
{
    bool inside = false;
    out->length = 0;
    for (int64_t t = s->sample[i].begin; t < s->sample[i].begin + s->sample[i].count; t++) {
        bool trained = (s->tokens[t] & CLT_CHAT_TRAINED) != 0;
        uint32_t id = s->tokens[t] & ~CLT_CHAT_TRAINED;
        if (trained != inside)
            clt_str_append(out, trained ? "{" : "}");
        inside = trained;
        assert_ok(clt_tokenizer_decode(s->tokenizer, &id, 1, out));
    }
    clt_str_append(out, inside ? "}" : "");
}

/* The result of a record: its text, or after "!" the reason why it is refused. */
static void expect_by(const char *record, const char *more, const char *template, const char *want)
{
    CLT_SCOPED(clt_config) *config = config_by(record, 300, more, template);
    CLT_SCOPED(clt_chat_samples) s = {0};
    CLT_SCOPED(clt_str) text = {0};
    if (clt_chat_samples_open(config, CLT_SPLIT_TRAIN, &s) != CLT_OK)
        fail_msg("%s: %s", record, clt_error_text());
    assert_int_equal(s.part.count, 1);
    if (s.sample[0].why)
        clt_str_printf(&text, "!%s", s.sample[0].why);
    else
        show(&s, 0, &text);
    if (*want == '!' ? strncmp(text.text, "!", 1) != 0 || !strstr(text.text, want + 1)
                     : strcmp(text.text, want) != 0)
        fail_msg("%s\n  becomes  %s\n  and not  %s", record, text.text, want);
}

static void expect(const char *record, const char *more, const char *want)
{
    expect_by(record, more, "chatml", want);
}

#define U "<|im_start|>user\n"
#define A "<|im_start|>assistant\n"
#define E "<|im_end|>"

TEST(forms_of_records)
{
    static const struct {
        const char *record, *more, *want;
    } cases[] = {
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"yo\"}],"
         "\"id\":7}",
         "", U "hi" E "\n" A "{yo" E "}\n"},
        {"{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[{\"type\":"
         "\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":"
         "\"1\",\"weight\":0},{\"role\":\"user\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"2\"}"
         "]}",
         "", "<|im_start|>system\ns" E "\n" U "ab" E "\n" A "1" E "\n" U E "\n" A "{2" E "}\n"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"1\"},"
         "{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"assistant\",\"content\":\"2\"}]}",
         "\"train_on\":\"last\",", U "a" E "\n" A "1" E "\n" U "b" E "\n" A "{2" E "}\n"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"1\"}]}",
         "\"train_on\":\"all\",\"system\":\"be\",",
         "{<|im_start|>system\nbe" E "\n" U "a" E "\n" A "1" E "\n}"},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"1\"}]}", "",
         U "a" E "\n" A "{1" E "}\n"},
        {"{\"prompt\":\"Q: \",\"completion\":\"yes\"}", "", "Q: {yes</s>}"},
        {"{\"prompt\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"1\"},"
         "{\"role\":\"user\",\"content\":\"b\"}],\"completion\":[{\"role\":\"assistant\",\"content\":\"2\"}]"
         "}",
         "", U "a" E "\n" A "1" E "\n" U "b" E "\n" A "{2" E "}\n"},
        {"{\"instruction\":\"add\",\"input\":\"1 2\",\"output\":\"3\"}", "",
         U "add\n\n1 2" E "\n" A "{3" E "}\n"},
        {"{\"instruction\":\"add\",\"output\":\"3\"}", "", U "add" E "\n" A "{3" E "}\n"},
        {"{\"text\":\"all of it\"}", "", "{all of it</s>}"},
        {"{\"input_ids\":[64,65,66],\"labels\":[-100,65,-100]}", "", "a{b}c"},
        {"{\"input_ids\":[64,65]}", "", "{ab}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i].record, cases[i].more, cases[i].want);
}

TEST(records_that_are_refused)
{
    static const char *const cases[][2] = {
        {"{\"messages\":[", "!record:1:"},
        {"[1]", "!it is an array, and a record is an object"},
        {"{\"question\":\"a\",\"answer\":\"b\"}", "!but: question, answer"},
        {"{\"messages\":\"hi\"}", "!its \"messages\" is a string, and must be a list of messages"},
        {"{\"messages\":[]}", "!no answer of the assistant"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "!no answer of the assistant"},
        {"{\"messages\":[7]}", "!message 1 of \"messages\": it is a number"},
        {"{\"messages\":[{\"content\":\"a\"}]}", "!it has no \"role\""},
        {"{\"messages\":[{\"role\":\"robot\",\"content\":\"a\"}]}", "!the role \"robot\" is not one of"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":null,"
         "\"tool_calls\":[{}]}]}",
         "!answers of tools, for which the chat template chatml has no form"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"content\":\"1\"},"
         "{\"role\":\"assistant\",\"content\":\"b\"}]}",
         "!the chat template chatml has no form"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}],"
         "\"tools\":[{}]}",
         "!the chat template chatml has no form"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\"}]}",
         "!the answer is empty"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}", "!holds \"image\""},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\","
         "\"weight\":2}]}",
         "!\"weight\" of a message must be 0 or 1"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\","
         "\"train\":false}]}",
         "!no answer of the assistant"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"s\"}]}",
         "!message 2 of \"messages\" is a system turn"},
        {"{\"prompt\":\"a\",\"completion\":\"\"}", "!the completion is empty"},
        {"{\"prompt\":\"a\"}", "!it has no \"completion\""},
        {"{\"instruction\":\"a\",\"output\":\"\"}", "!the answer (\"output\") is empty"},
        {"{\"text\":\"\"}", "!the text is empty"},
        {"{\"input_ids\":[1,999]}", "!token 2 of \"input_ids\" is not one of the tokenizer's 341"},
        {"{\"input_ids\":[1,-1]}", "!token 2 of \"input_ids\""},
        {"{\"input_ids\":[1,2],\"labels\":[1]}", "!as long as"},
        {"{\"input_ids\":[1,2],\"labels\":[1,3]}", "!label 2 is neither the token 2 nor -100"},
        {"{\"input_ids\":[1,2],\"labels\":[1,-100]}", "!no token to train on after its first"},
        {"{\"input_ids\":[1,2],\"labels\":[-100,-100]}", "!none of its tokens is to be trained on"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i][0], "", cases[i][1]);
}

#define ASKED "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
#define CALL                                                                                                 \
    "[{\"type\":\"function\",\"id\":\"abcdef123\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1.50}}}" \
    "]"
#define ANSWERED "{\"role\":\"tool\",\"tool_call_id\":\"abcdef123\",\"content\":\"7\"}"

/* Conversations with tools: which parts are trained, and which are refused with a reason that names the
 * fault. */
TEST(tools_in_conversations)
{
    static const struct {
        const char *record, *template, *want;
    } cases[] = {
        {ASKED "null,\"tool_calls\":" CALL "}," ANSWERED ",{\"role\":\"assistant\",\"content\":\"b\"}]}",
         "qwen3",
         U "a" E "\n" A "{<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1.5}}\n</tool_call>" E
           "}\n<|im_start|>user\n<tool_response>\n7\n</tool_response>" E "\n" A "{<think>\n\n</think>\n\nb" E
           "}\n"},
        {ASKED "\"b\"}]}", "qwen3-nothink", U "a" E "\n" A "<think>\n\n</think>\n\n{b" E "}\n"},
        {ASKED
         "\"<think>\\nso\\n</think>\\n\\nb\"},{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\","
         "\"content\":\"<think>\\nnow\\n</think>\\n\\nd\"}]}",
         "qwen3", U "a" E "\n" A "{b" E "}\n" U "c" E "\n" A "{<think>\nnow\n</think>\n\nd" E "}\n"},
        {ASKED "null,\"tool_calls\":" CALL "}]}", "mistral-v0.3",
         "<s>[INST] a[/INST]{[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1.5}, \"id\": "
         "\"abcdef123\"}]</s>}"},
        {ASKED "null,\"tool_calls\":{}}]}", "qwen3",
         "!\"tool_calls\" is an object, and must be a list of calls"},
        {ASKED "null,\"tool_calls\":[7]}]}", "qwen3", "!an entry of \"tool_calls\" is a number"},
        {ASKED "null,\"tool_calls\":[{\"function\":3}]}]}", "qwen3", "!has no object \"function\""},
        {ASKED "null,\"tool_calls\":[{\"name\":\"f\"}]}]}", "qwen3", "!the call of 'f' has no \"arguments\""},
        {ASKED "null,\"tool_calls\":[{\"name\":7,\"arguments\":{}}]}]}", "qwen3", "!has no \"name\""},
        {ASKED "null,\"tool_calls\":[{\"name\":\"f\",\"arguments\":[1]}]}]}", "qwen3",
         "!has no \"arguments\""},
        {ASKED "null,\"tool_calls\":[{\"name\":\"f\",\"arguments\":{\"x\":1e30}}]}]}", "qwen3", "!64 bits"},
        {ASKED "null,\"tool_calls\":[{\"name\":\"f\",\"arguments\":{}}]}]}", "mistral-v0.3",
         "!has no object"},
        {ASKED "null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}},\"id\":\"1\"}]}]}",
         "mistral-v0.3", "!'1' does not have 9 characters"},
        {ASKED "null,\"tool_calls\":[]}]}", "qwen3", "!must be a string"},
        {ASKED "\"b\"}," ANSWERED "],\"tools\":{}}", "qwen3", "!its \"tools\" is an object"},
        {ASKED "\"b\"}],\"tools\":[1]}", "qwen3", "!an entry of its \"tools\" is not an object"},
        {ASKED "\"b\"}],\"tools\":[{\"name\":\"f\"}]}", "mistral-v0.3", "!with an object \"function\""},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[{}]}]}", "qwen3",
         "!only the assistant calls tools"},
        {ASKED "\"b\"},{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"1\"}]}]}", "qwen3",
         "!\"content\" is an array, and must be a string"},
        {ASKED "\"b\"},{\"role\":\"tool\",\"content\":\"1\"}]}", "mistral-v0.3", "!\"tool_call_id\" ''"},
        {ASKED "\"b\",\"reasoning_content\":7}]}", "qwen3", "!\"reasoning_content\" is a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_by(cases[i].record, "", cases[i].template, cases[i].want);
}

/* Names of special tokens in a message cannot fake a turn, unless the config allows them. */
TEST(special_tokens_in_messages)
{
    static const char record[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a" E "b\"},"
                                 "{\"role\":\"assistant\",\"content\":\"c\"}]}";
    for (int read = 0; read < 2; read++) {
        CLT_SCOPED(clt_config) *config = config_for(record, 99, read ? "\"special_tokens\":true," : "");
        CLT_SCOPED(clt_chat_samples) s = {0};
        int ends = 0;
        assert_ok(clt_chat_samples_open(config, CLT_SPLIT_TRAIN, &s));
        for (int64_t t = 0; t < s.n_tokens; t++)
            ends += (s.tokens[t] & ~CLT_CHAT_TRAINED) == 332; /* <|im_end|> */
        assert_int_equal(ends, read ? 3 : 2);
        assert_int_equal(s.special, read ? 0 : 1);
    }
}

TEST(samples_that_are_too_long)
{
    static const char record[] = "{\"prompt\":\"0123456789\",\"completion\":\"abc\"}\n\n"
                                 "{\"prompt\":\"0\",\"completion\":\"abcdefghijklm\"}\n";
    for (int cut = 0; cut < 2; cut++) {
        CLT_SCOPED(clt_config) *config = config_for(record, 4, cut ? "\"truncate\":true," : "");
        CLT_SCOPED(clt_chat_samples) s = {0};
        CLT_SCOPED(clt_str) place = {0};
        assert_ok(clt_chat_samples_open(config, CLT_SPLIT_TRAIN, &s));
        assert_int_equal(s.bad, cut ? 1 : 2);
        assert_non_null(
            strstr(s.sample[0].why, cut ? "no token to train on is left after cutting it from"
                                        : "tokens, and a sample of 5 at most fits into model.context 4"));
        assert_int_equal(s.sample[1].count, cut ? 5 : 0);
        assert_int_equal(s.sample[1].targets, cut ? 4 : 0);
        clt_record_place(&s.texts, s.part.first + 1, &place);
        assert_non_null(strstr(place.text, "chats.jsonl', line 3"));
    }
}

/* A list of JSON, on one line or on many, holds the same records; a fault is named by the number of its
 * record, and one that ends the list by its byte. */
TEST(lists_of_records)
{
    static const char *const lists[] = {
        "\xef\xbb\xbf[{\"prompt\":\"a ] } \\\"\",\"completion\":\"b\"},7,{\"text\":\"\"}]",
        "\n[\n  {\n \"prompt\" : \"a ] } \\\"\",\n \"completion\": \"b\"\n},\n 7 ,\n{\"text\":\"\"}\n]\n"};
    static const char *const places[] = {"chats.jsonl', record 2, line 1", "chats.jsonl', record 2, line 7"};
    for (int i = 0; i < 2; i++) {
        CLT_SCOPED(clt_config) *config = config_for(lists[i], 99, "");
        CLT_SCOPED(clt_chat_samples) s = {0};
        CLT_SCOPED(clt_str) text = {0};
        assert_ok(clt_chat_samples_open(config, CLT_SPLIT_TRAIN, &s));
        assert_int_equal(s.part.count, 3);
        assert_int_equal(s.bad, 2);
        show(&s, 0, &text);
        assert_string_equal(text.text, "a ] } \"{b</s>}");
        assert_non_null(strstr(s.sample[1].why, "it is a number, and a record is an object"));
        assert_non_null(strstr(s.sample[2].why, "the text is empty"));
        text.length = 0;
        clt_record_place(&s.texts, 1, &text);
        assert_non_null(strstr(text.text, places[i]));
    }
    static const char *const faults[][2] = {
        {"[{\"text\":\"a\"}", "byte 14: expected a comma or the end of a list or object, as in a list"},
        {"[{\"text\":\"a\"}] x", "byte 16: expected the end of the file"},
        {"[{\"text\":\"a\"},]", "byte 15: expected a value"},
        {"[{\"text\":\"a", "expected the end of a string"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        CLT_SCOPED(clt_config) *config = config_for(faults[i][0], 99, "");
        CLT_SCOPED(clt_chat_samples) s = {0};
        assert_int_equal(clt_chat_samples_open(config, CLT_SPLIT_TRAIN, &s), CLT_EDATA);
        if (!strstr(clt_error_text(), faults[i][1]))
            fail_msg("%s: %s", faults[i][0], clt_error_text());
    }
}

/* --- templates --- */

TEST(programs_of_templates)
{
    static const char *const names[] = {"chatml",        "qwen2",  "qwen2.5",  "smollm2",      "qwen3",
                                        "qwen3-nothink", "llama3", "llama3.1", "mistral-v0.1", "mistral-v0.2",
                                        "mistral-v0.3",  "zephyr", "plain"};
    CLT_SCOPED(clt_arena) *arena = NULL;
    assert_ok(clt_arena_create(&arena));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CLT_SCOPED(clt_str) program = {0};
        const clt_chat_template *chat = clt_chat_template_find(names[i]), *found;
        const char *why;
        assert_non_null(chat);
        assert_ok(clt_chat_template_print(chat, "", "", &program));
        clt_str_append(&program, "\n");
        put_file("chat_template.jinja", program.text, program.length);
        assert_ok(clt_chat_template_recognise(in_dir(""), arena, &found, &why));
        assert_ptr_equal(found, chat);
    }
    assert_null(clt_chat_template_find("auto"));
}

/* Template programs with tools; tests/golden/check_chat_programs.py has compared their text with published
 * ones. */
TEST(programs_with_tools)
{
    static const char *const known[][2] = {
        {"qwen2.5", "57c86d34a7f511d19ec159877a66897fd1b0cefa3ba284f51dd43d597f60d4d8"},
        {"qwen3", "6e5b633782b46fa5bc74784f672843cd680a4c35cbeb9059aed40c234bc8ab5a"},
        {"qwen3-nothink", "a370cfb593a38460cbf9645c9431cc17bbca162a311bcf636f30496274e38f6c"},
        {"llama3.1", "3a7963e5995de371744a3db6767cdaa9bb27683ebf5cee216912690e997abb62"},
        {"llama3.2", "9f86bcde50ef0c1d039ac16752cef1cd1d0672b2a111faf8c7506a22ba1de41d"},
        {"mistral-v0.3", "bad4d70bdc8bc5ff32eaf02ef25d44d910eb97153444ea71408a9f4401c55aa3"},
    };
    char hash[CLT_SHA256_TEXT];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        CLT_SCOPED(clt_str) program = {0};
        assert_ok(clt_chat_template_print(clt_chat_template_find(known[i][0]), "", "", &program));
        assert_string_equal(clt_sha256_text(program.text, program.length, hash), known[i][1]);
    }
}

static void expect_recognised(const char *file, const char *text, const char *name, const char *reason)
{
    CLT_SCOPED(clt_arena) *arena = NULL;
    const clt_chat_template *found;
    const char *why;
    assert_ok(clt_arena_create(&arena));
    put_file(file, text, strlen(text));
    assert_ok(clt_chat_template_recognise(in_dir(""), arena, &found, &why));
    assert_string_equal(found ? found->name : "none", name);
    assert_non_null(strstr(why, reason));
}

TEST(templates_of_models)
{
    static const char chatml[] =
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
        "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% "
        "endif %}";
    char text[900];
    (void)remove(in_dir("chat_template.jinja"));
    expect_recognised("tokenizer_config.json", "{}", "none", "has no chat template");
    (void)snprintf(
        text, sizeof text,
        "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},{\"name\":\"default\",\"template\":"
        "\"%s\"}]}",
        chatml);
    expect_recognised("tokenizer_config.json", text, "chatml", "");
    (void)snprintf(text, sizeof text, "{\"chat_template\":\"%s\"}", chatml);
    expect_recognised("tokenizer_config.json", text, "chatml", "");
    expect_recognised("chat_template.jinja", "{{ bos_token }} something else", "none",
                      "not one of the known ones");
}

TEST(templates_that_do_not_fit)
{
    static const struct {
        const char *more, *error;
    } cases[] = {
        {"\"template\":\"auto\",", "template is not known"},
        {"\"tokenizer\":\"bytes\",", "lacks: <|im_end|>, <|im_start|>"},
        {"\"template\":\"zephyr\",\"tokenizer\":\"bytes\",", "lacks: eos_token"},
        {"\"template\":\"llama3.2\",", "by data.date"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1200];
        CLT_SCOPED(clt_config) *config = NULL;
        CLT_SCOPED(clt_chat_samples) s = {0};
        const char *file = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                           "{\"role\":\"assistant\",\"content\":\"b\"}]}";
        put_file("chats.jsonl", file, strlen(file));
        (void)snprintf(
            text, sizeof text,
            "{\"model\":{\"type\":\"llama\",\"layers\":1,\"heads\":1,\"channels\":2,\"context\":9},"
            "\"data\":{\"type\":\"chat\",%s%s%s\"path\":\"%s\",\"split\":0}}",
            cases[i].more, strstr(cases[i].more, "tokenizer") ? "" : "\"tokenizer\":\"" TOKENIZERS "gpt2\",",
            strstr(cases[i].more, "template") ? "" : "\"template\":\"chatml\",", in_dir("chats.jsonl"));
        assert_ok(clt_config_parse(text, "chat.json", NULL, 0, &config));
        clt_status status = clt_chat_samples_open(config, CLT_SPLIT_TRAIN, &s);
        const char *said = status == CLT_OK ? s.sample[0].why : clt_error_text();
        if (!said || !strstr(said, cases[i].error))
            fail_msg("%s: %s", cases[i].more, said ? said : "it fits");
    }
}

/* --- packing --- */

/* Checks that each sample is in one row and that no row is too long, and returns the number of rows. */
static int64_t check_rows(const int64_t *length, int64_t n, int64_t room, clt_chat_packing how)
{
    CLT_SCOPED(clt_chat_rows) rows = {0};
    CLT_FREED int *seen = calloc((size_t)n, sizeof *seen);
    assert_ok(clt_chat_pack(length, n, room, how, &rows));
    assert_int_equal(rows.first[0], 0);
    assert_int_equal(rows.first[rows.count], n);
    for (int64_t r = 0; r < rows.count; r++) {
        int64_t sum = 0;
        assert_true(rows.first[r] < rows.first[r + 1]);
        assert_true(how != CLT_CHAT_NONE || rows.first[r] + 1 == rows.first[r + 1]);
        for (int64_t i = rows.first[r]; i < rows.first[r + 1]; i++) {
            assert_false(seen[rows.sample[i]]++);
            assert_true(how == CLT_CHAT_BEST || rows.sample[i] == i);
            sum += length[rows.sample[i]];
        }
        assert_true(sum <= room);
    }
    return rows.count;
}

TEST(packing)
{
    int64_t length[500];
    for (int round = 0; round < 40; round++) {
        int64_t n = 1 + (int64_t)(clt_rng_u32(3, CLT_RNG_DATA, 0, (uint32_t)round, 0) % 500), total = 0;
        int64_t room = 1 + (int64_t)(clt_rng_u32(3, CLT_RNG_DATA, 1, (uint32_t)round, 0) % 300);
        for (int64_t i = 0; i < n; i++) {
            length[i] = 1 + (int64_t)(clt_rng_u32(3, CLT_RNG_DATA, 2, (uint32_t)round, (uint64_t)i) % room);
            total += length[i];
        }
        int64_t best = check_rows(length, n, room, CLT_CHAT_BEST),
                next = check_rows(length, n, room, CLT_CHAT_NEXT);
        assert_true(best <= next);
        assert_true(next <= check_rows(length, n, room, CLT_CHAT_NONE));
        /* best fit decreasing needs at most 11/9 of the best number of rows, and one more */
        assert_true(9 * (best - 1) <= 11 * ((total + room - 1) / room + n) && best * room >= total);
    }
    static const int64_t few[] = {5, 9, 3, 2, 1};
    assert_int_equal(check_rows(few, 5, 10, CLT_CHAT_BEST), 2);
    assert_int_equal(check_rows(few, 5, 10, CLT_CHAT_NEXT), 3);
}

TEST(fields_of_a_row)
{
    static const char records[] =
        "{\"prompt\":\"ab\",\"completion\":\"c\"}\n{\"prompt\":\"d\",\"completion\":\"eq\"}\n";
    static const int32_t want[4][10] = {{64, 65, 66, 67, 68, 80, 330, 330, 330, 330},
                                        {-1, 66, 338, 68, 80, 338, -1, -1, -1, -1},
                                        {0, 0, 0, 3, 3, 3, 6, 6, 6, 6},
                                        {0, 1, 2, 0, 1, 2, 0, 1, 2, 3}};
    for (int packed = 1; packed >= 0; packed--) {
        CLT_SCOPED(clt_config) *config =
            config_for(records, 10, packed ? "\"packing\":\"next\"," : "\"packing\":\"none\",");
        CLT_SCOPED(clt_source) *source = NULL;
        uint16_t x[10];
        int32_t field[10];
        assert_ok(clt_source_open(config, CLT_SPLIT_TRAIN, &source));
        assert_int_equal(source->samples, packed ? 1 : 2);
        assert_int_equal(source->n_fields, packed ? 4 : 2);
        assert_int_equal(source->tokens, 6);
        assert_string_equal(source->chat, "chatml");
        assert_ok(clt_source_read_field(source, 0, 0, x));
        for (int i = 0; i < (packed ? 10 : 3); i++)
            assert_int_equal(x[i], want[0][i]);
        for (int f = 1; f < source->n_fields; f++) {
            assert_ok(clt_source_read_field(source, 0, f, field));
            for (int i = 0; i < (packed ? 10 : 3); i++)
                assert_int_equal(field[i], want[f][i]);
        }
        assert_int_equal(source->type->target_bytes(source, 0, -1), packed ? 3 : 1);
    }
}

TEST_PROGRAM();
