/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of engine/data share: a temporary folder, files made by the test, configs in one line. */
#ifndef TESTS_UNIT_DATA_TEST_H
#define TESTS_UNIT_DATA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/data/data.h"
#include "engine/files/fileio.h"

static char test_dir[64];

static inline int data_setup(void **state)
{
    (void)state;
    (void)snprintf(test_dir, sizeof test_dir, "/tmp/cltrain_data_XXXXXX");
    return mkdtemp(test_dir) ? 0 : -1;
}

static inline int data_teardown(void **state)
{
    (void)state;
    return clt_remove_tree(test_dir) == CLT_OK ? 0 : -1;
}

/* Path of a file in the test's folder. The text is valid for the next three calls. */
static inline const char *in_dir(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", test_dir, name);
    return path[turn];
}

static inline const char *put_file(const char *name, const void *bytes, size_t size)
{
    const char *path = in_dir(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

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
    size_t used = strlen(text);
    for (const char *at = members; *at; at++) {
        assert_true(used + 80 < sizeof text);
        if (at[0] == '%' && at[1] == 'D') {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", test_dir);
            at++;
        } else {
            text[used++] = *at;
        }
    }
    text[used] = '\0';
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
    clt_config *config = NULL;
    *source = NULL;
    CLT_TRY(parse_data_config(members, &config));
    clt_status status = clt_source_open(config, split, source);
    clt_config_destroy(config);
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
