/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of engine/data share: a temporary folder, files made by the test, configs in one line. */
#ifndef TESTS_UNIT_DATA_TEST_H
#define TESTS_UNIT_DATA_TEST_H

#include "tests/unit/test.h"

#include <zlib.h>

#include "engine/data/data.h"
#include "engine/files/fileio.h"

static inline const char *put_gzip(const char *name, const void *bytes, size_t size)
{
    const char *path = in_dir(name);
    gzFile file = gzopen(path, "wb9");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), (int)size);
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

/* Parses a config from the members of its data section; %D stands for the test's folder. */
static inline clt_status parse_data_config(const char *members, clt_config **config)
{
    char text[4096] = "{\"model\":{\"type\":\"graph\",\"layers\":[{\"op\":\"linear\",\"out\":1}]},"
                      "\"train\":{\"steps\":1,\"seed\":7},\"data\":{";
    char *there = with_folder(members);
    assert_true(strlen(text) + strlen(there) + 3 < sizeof text);
    strcat(text, there);
    free(there);
    strcat(text, "}}");
    return clt_config_parse(text, "test", NULL, 0, config);
}

static inline clt_config *data_config(const char *members)
{
    clt_config *config = NULL;
    if (parse_data_config(members, &config) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return config;
}

static inline clt_status try_open(const char *members, clt_split split, clt_source **source)
{
    CLT_SCOPED(clt_config) *config = NULL;
    *source = NULL;
    CLT_TRY(parse_data_config(members, &config));
    clt_status status = clt_source_open(config, split, source);
    return status;
}

static inline clt_source *must_open(const char *members, clt_split split)
{
    clt_source *source = NULL;
    if (try_open(members, split, &source) != CLT_OK)
        fail_msg("%s", clt_error_text());
    assert_non_null(source->description);
    return source;
}

/* The error message must contain every text in a list separated by '|'. */
static inline void expect_words(const char *words)
{
    char list[512];
    (void)snprintf(list, sizeof list, "%s", words);
    for (char *save = NULL, *word = strtok_r(list, "|", &save); word; word = strtok_r(NULL, "|", &save))
        if (!strstr(clt_error_text(), word))
            fail_msg("'%s' is not in: %s", word, clt_error_text());
}

static inline void expect_refused(const char *members, clt_split split, clt_status code, const char *words)
{
    clt_source *source = NULL;
    clt_error_clear();
    clt_status status = try_open(members, split, &source);
    if (status != code)
        fail_msg("%s instead of %s for %s: %s", clt_status_name(status), clt_status_name(code), members,
                 clt_error_text());
    assert_null(source);
    expect_words(words);
}

static inline void must_read(const clt_source *source, int64_t index, int field, void *dst)
{
    if (clt_source_read_field(source, index, field, dst) != CLT_OK)
        fail_msg("%s", clt_error_text());
}

#endif
