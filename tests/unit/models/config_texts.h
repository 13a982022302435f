/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of configs share: a good config, and texts that must be accepted or refused. */
#ifndef TESTS_UNIT_MODELS_CONFIG_TEXTS_H
#define TESTS_UNIT_MODELS_CONFIG_TEXTS_H

#include "tests/unit/test.h"

#include "engine/config/config.h"
#include "engine/files/fileio.h"

static const char *const shipped[] = {"mlp-mnist.json", "mlp-regression.json", "graph-residual.json",
                                      "mlp-text.json"};

static const char good[] =
    "{\n"
    "  \"model\": {\"type\": \"mlp\", \"hidden\": [64, 32], \"dropout\": 0.25},\n"
    "  \"data\": {\"type\": \"idx\", \"path\": \"a\", \"targets\": \"b\", \"micro_batch\": 16},\n"
    "  \"optimizer\": {\"type\": \"sgd\", \"momentum\": 0.9}\n"
    "}\n";

static inline char *read_shipped(const char *name)
{
    char path[1024], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/configs/%s", CLT_TEST_SOURCE_DIR, name);
    assert_ok(clt_file_read(path, false, 0, CLT_ECONFIG, &text, &size));
    return text;
}

static inline clt_config *parse_ok(const char *text, const char *const *overrides, int count)
{
    clt_config *config = NULL;
    clt_status status = clt_config_parse(text, "t.json", overrides, count, &config);
    if (status != CLT_OK)
        print_message("%s\n", clt_error_text());
    assert_ok(status);
    return config;
}

/* Parses a text that must be refused; the message must contain `says` and must not contain `not`. */
static inline void refused_without(const char *text, const char *override, const char *says,
                                   const char * not )
{
    clt_config *config = NULL;
    assert_int_equal(clt_config_parse(text, "t.json", &override, 1, &config), CLT_ECONFIG);
    if (!strstr(clt_error_text(), says) || strstr(clt_error_text(), not ))
        fail_msg("message: %s", clt_error_text());
}

/* Parses a text that must be refused; the message must contain every text in the NULL-terminated list. */
static inline void refused(const char *text, const char *override, ...)
{
    clt_config *config = NULL;
    const char *const overrides[] = {override};
    clt_status status = clt_config_parse(text, "t.json", overrides, override ? 1 : 0, &config);
    assert_int_equal(status, CLT_ECONFIG);
    assert_null(config);
    va_list words;
    va_start(words, override);
    for (const char *word = va_arg(words, const char *); word; word = va_arg(words, const char *))
        if (!strstr(clt_error_text(), word)) {
            print_message("message: %s\n", clt_error_text());
            fail_msg("'%s' is missing in the message", word);
        }
    va_end(words);
}

static inline int problem_count(void)
{
    int count = 1;
    for (const char *c = clt_error_text(); *c; c++)
        count += *c == '\n';
    return count;
}

#endif
