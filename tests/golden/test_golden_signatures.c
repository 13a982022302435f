/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of 500 random requests to S3, with odd keys, parameters, headers and tokens, equal botocore's
 * (make_golden_signatures.py). */
#include "tests/unit/test.h"

#include "engine/json/json.h"
#include "engine/storage/sigv4.h"

#define FILE_NAME CLT_TEST_SOURCE_DIR "/tests/golden/signatures.jsonl"
#define PAIRS 12

static int read_pairs(const clt_json *list, clt_pair *pairs, int n)
{
    for (const clt_json *pair = clt_json_first(list); pair; pair = clt_json_next(pair), n++) {
        assert_true(n < PAIRS);
        pairs[n].name = clt_json_string(clt_json_first(pair));
        pairs[n].value = clt_json_string(clt_json_next(clt_json_first(pair)));
    }
    return n;
}

static void check_line(const char *line, size_t length)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_SCOPED(clt_str) path = {0}, found = {0}, wanted = {0};
    clt_pair query[PAIRS], headers[PAIRS];
    char time[CLT_SIGV4_TIME];
    const clt_json *at[12];
    int64_t seconds;
    assert_ok(clt_json_parse(line, length, FILE_NAME, CLT_EDATA, &doc));
    at[0] = clt_json_first(clt_json_root(doc));
    for (int i = 1; i < 12; i++)
        at[i] = clt_json_next(at[i - 1]);
    assert_true(clt_json_int(at[8], &seconds));
    clt_str_append(&path, "/");
    clt_uri_encode(&path, clt_json_string(at[1]), true);
    headers[0] = (clt_pair){"Host", clt_json_string(at[9])};
    headers[1] = (clt_pair){"x-amz-content-sha256", clt_json_string(at[4])};
    headers[2] = (clt_pair){"X-Amz-Date", clt_sigv4_time(seconds, time)};
    const clt_sigv4 request = {.method = clt_json_string(at[0]),
                               .path = path.text,
                               .query = query,
                               .n_query = read_pairs(at[2], query, 0),
                               .headers = headers,
                               .n_headers = read_pairs(at[3], headers, 3),
                               .payload = clt_json_string(at[4]),
                               .service = "s3",
                               .region = clt_json_string(at[5]),
                               .access_key = clt_json_string(at[6]),
                               .secret_key = clt_json_string(at[7]),
                               .time = seconds};
    assert_ok(clt_sigv4_sign(&request, &found));
    clt_str_printf(
        &wanted, "AWS4-HMAC-SHA256 Credential=%s/%.8s/%s/s3/aws4_request, SignedHeaders=%s, Signature=%s",
        request.access_key, time, request.region, clt_json_string(at[10]), clt_json_string(at[11]));
    assert_string_equal(found.text, wanted.text);
}

TEST(signatures_are_botocores)
{
    size_t size;
    char *text = read_file(FILE_NAME, &size);
    int lines = 0;
    for (char *line = text; *line; lines++) {
        size_t length = strcspn(line, "\n");
        check_line(line, length);
        line += length + 1;
    }
    assert_int_equal(lines, 500);
    free(text);
}

TEST(a_query_is_sorted_after_it_is_encoded)
{
    CLT_SCOPED(clt_str) text = {0};
    const clt_pair query[] = {{"uploads", NULL}, {"a b", "+/="}, {"a", "2"}, {"a", "1"}, {"A", "~"}};
    assert_ok(clt_sigv4_query(query, 5, &text));
    assert_string_equal(text.text, "A=~&a=1&a=2&a%20b=%2B%2F%3D&uploads=");
}

TEST(too_many_parameters_are_refused)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_pair query[CLT_SIGV4_PAIRS + 1];
    for (int i = 0; i <= CLT_SIGV4_PAIRS; i++)
        query[i] = (clt_pair){"a", "b"};
    assert_int_equal(clt_sigv4_query(query, CLT_SIGV4_PAIRS + 1, &text), CLT_EUSAGE);
}
