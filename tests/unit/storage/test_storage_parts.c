/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the object storage client that need no server: checksums, XML, dates, addresses, endpoints,
 * sizes of parts, what answers mean. */
#include <stdatomic.h>
#include <sys/resource.h>

#include "tests/unit/test.h"

#include "engine/base/thread.h"
#include "engine/files/sha256.h"
#include "engine/storage/address.h"
#include "engine/storage/copies/copies_internal.h"
#include "engine/storage/dates.h"
#include "engine/storage/s3_internal.h"
#include "engine/storage/secret.h"
#include "engine/storage/xml.h"

static void clear_environment(void)
{
    static const char *const names[] = {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",       "AWS_SESSION_TOKEN",
        "AWS_PROFILE",       "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    setenv("AWS_CONFIG_FILE", "/dev/null", 1);
}

/* --- checksums --- */

/* The published examples of FIPS 180-4 and RFC 4231. */
TEST(sums_are_the_published_ones)
{
    char text[CLT_SHA256_TEXT];
    uint8_t sum[CLT_SHA256_SIZE], long_key[131];
    assert_string_equal(clt_sha256_text("", 0, text),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(clt_sha256_text("abc", 3, text),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    assert_string_equal(clt_sha256_text(million, 1000000, text),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
    clt_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, sum);
    assert_string_equal(clt_sha256_hex(sum, text),
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(long_key, 0xaa, sizeof long_key);
    clt_hmac_sha256(long_key, sizeof long_key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                    sum);
    assert_string_equal(clt_sha256_hex(sum, text),
                        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(sums_do_not_depend_on_how_bytes_are_split)
{
    char bytes[400], whole[CLT_SHA256_TEXT], parts[CLT_SHA256_TEXT];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    for (size_t size = 0; size <= sizeof bytes; size += 13) {
        clt_sha256_text(bytes, size, whole);
        for (size_t step = 1; step < 150; step += 21) {
            clt_sha256 sum;
            uint8_t out[CLT_SHA256_SIZE];
            clt_sha256_begin(&sum);
            for (size_t at = 0; at < size; at += step)
                clt_sha256_add(&sum, bytes + at, step < size - at ? step : size - at);
            clt_sha256_end(&sum, out);
            assert_string_equal(clt_sha256_hex(out, parts), whole);
        }
    }
}

/* --- XML --- */

static clt_xml xml_of(const char *text)
{
    return (clt_xml){.text = text, .size = strlen(text)};
}

TEST(elements_are_found_in_their_order)
{
    clt_xml rest =
        xml_of("<?xml version=\"1.0\"?><R xmlns=\"http://x/\"><KeyCount>2</KeyCount>"
               "<C><Key>a</Key><Size>1</Size></C><C><Key>b&amp;c</Key><Size>2</Size></C><Empty/></R>");
    clt_xml element, all = rest;
    char text[32];
    assert_true(clt_xml_find(rest, "C", &element, &rest));
    assert_true(clt_xml_copy(element, "Key", text, sizeof text));
    assert_string_equal(text, "a");
    assert_true(clt_xml_find(rest, "C", &element, &rest));
    assert_true(clt_xml_copy(element, "Key", text, sizeof text));
    assert_string_equal(text, "b&c");
    assert_false(clt_xml_find(rest, "C", &element, &rest));
    assert_true(clt_xml_find(all, "R", &element, NULL));
    assert_true(clt_xml_copy(all, "Empty", text, sizeof text));
    assert_string_equal(text, "");
    assert_false(clt_xml_copy(all, "Absent", text, sizeof text));
    assert_false(clt_xml_copy(all, "Key", text, 1)); /* too long for the buffer */
}

TEST(entities_become_what_they_stand_for)
{
    static const struct {
        const char *xml, *text;
    } cases[] = {{"&#34;abc-2&#34;", "\"abc-2\""},
                 {"&quot;abc&quot;", "\"abc\""},
                 {"&lt;&gt;&amp;&apos;", "<>&'"},
                 {"&#x41;&#xe9;&#x65e5;&#x1f600;", "A\u00e9\u65e5\U0001f600"},
                 {"a & b &unknown; &#; &#x110000; &", "a & b &unknown; &#; &#x110000; &"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CLT_SCOPED(clt_str) text = {0};
        clt_xml_text(xml_of(cases[i].xml), &text);
        assert_string_equal(text.text, cases[i].text);
    }
}

TEST(damaged_xml_is_not_read_beyond_its_end)
{
    static const char text[] = "<a><Key>value</Key><Size>12</Size></a>";
    for (size_t size = 0; size < sizeof text; size++) {
        char *cut = malloc(size + 1), value[16];
        memcpy(cut, text, size);
        cut[size] = '<'; /* text after the end must not be read */
        bool whole = size >= strlen("<a><Key>value</Key>");
        assert_int_equal(clt_xml_copy((clt_xml){.text = cut, .size = size}, "Key", value, sizeof value),
                         whole);
        free(cut);
    }
}

/* --- dates --- */

TEST(dates_are_read_in_both_forms)
{
    int64_t time = 0;
    assert_true(clt_date_iso("2026-11-22T11:01:10Z", &time));
    assert_int_equal(time, 1795345270);
    assert_true(clt_date_iso("2026-11-22T11:01:10.123Z", &time));
    assert_int_equal(time, 1795345270);
    assert_true(clt_date_http("Sun, 22 Nov 2026 11:01:10 GMT", &time));
    assert_int_equal(time, 1795345270);
    const int64_t then = time;
    assert_true(clt_date_iso("2026-11-22T12:01:10+01:00", &time));
    assert_int_equal(time, then);
    assert_true(clt_date_iso("2026-11-22T05:31:10.5-0530", &time));
    assert_int_equal(time, then);
    assert_false(clt_date_iso("2026-11-22T12:01:10+1", &time));
    assert_false(clt_date_iso("2026-11-22T12:01:10+25:00", &time));
    assert_false(clt_date_iso("2026-11-22T12:01:10+01:00Z", &time));
    assert_false(clt_date_iso("2026-11-22 11:01:10", &time));
    assert_false(clt_date_iso("2026-13-22T11:01:10Z", &time));
    assert_false(clt_date_iso("", &time));
    assert_false(clt_date_http("Sun, 22 Nix 2026 11:01:10 GMT", &time));
    assert_false(clt_date_http("now", &time));
}

/* --- addresses --- */

TEST(addresses_have_a_bucket_and_a_prefix)
{
    clt_s3_address a;
    assert_ok(clt_s3_address_parse("s3://my.bucket-1/runs/a b//c/", &a));
    assert_string_equal(a.bucket, "my.bucket-1");
    assert_string_equal(a.prefix, "runs/a b//c");
    assert_ok(clt_s3_address_parse("s3://abc", &a));
    assert_string_equal(a.prefix, "");
    assert_ok(clt_s3_address_parse("s3://abc///", &a));
    assert_string_equal(a.prefix, "");
    static const char *const wrong[] = {
        "s3:/abc/x",     "S3://abc",     "s3://ab", "s3://Abc/x", "s3://-abc",
        "s3://abc-/x",   "s3://",        "s3:///x", "s3://a_b/x", "s3://user:secret@abc/x",
        "s3://abc/\xff", "s3://abc/a\nb"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(clt_s3_address_parse(wrong[i], &a), CLT_EUSAGE);
}

TEST(servers_without_tls_are_refused_unless_they_are_here_or_named)
{
    clt_endpoint e;
    assert_ok(clt_endpoint_parse("https://s3.example.org/", "e", "", &e));
    assert_true(e.tls);
    assert_string_equal(e.host, "s3.example.org");
    assert_ok(clt_endpoint_parse("https://s3.example.org:443", "e", "", &e));
    assert_string_equal(e.host, "s3.example.org");
    assert_ok(clt_endpoint_parse("https://s3.example.org:9443", "e", "", &e));
    assert_string_equal(e.host, "s3.example.org:9443");
    static const char *const here[] = {"http://127.0.0.1:8333", "http://localhost:9000/", "http://[::1]:80",
                                       "http://127.9.9.9"};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        assert_ok(clt_endpoint_parse(here[i], "e", "", &e));
    static const char *const wrong[] = {"s3.example.org",
                                        "http://s3.example.org",
                                        "https://",
                                        "https://a/b",
                                        "https://a?x=y",
                                        "http://127.0.0.1.example.org",
                                        "http://1270.0.0.1",
                                        "ftp://a",
                                        "http://localhost.example.org",
                                        "https://u:secret@host",
                                        "https://a b",
                                        "http://10.0.0.1:8333"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(clt_endpoint_parse(wrong[i], "e", "", &e), CLT_EUSAGE);
        assert_null(strstr(clt_error_text(), "secret"));
    }
    assert_ok(clt_endpoint_parse("http://10.0.0.1:8333", "e", "10.0.0.1", &e));
    assert_ok(clt_endpoint_parse("http://10.0.0.1:8333", "e", "10.0.0.1:8333", &e));
    assert_int_equal(clt_endpoint_parse("http://10.0.0.12:8333", "e", "10.0.0.1", &e), CLT_EUSAGE);
}

TEST(the_bucket_is_in_the_path_where_it_cannot_be_in_the_name)
{
    static const struct {
        const char *host, *bucket;
        bool by_path;
    } cases[] = {{"s3.eu-central-1.amazonaws.com", "abc", false},
                 {"s3.eu-central-1.amazonaws.com", "a.bc", true},
                 {"127.0.0.1:8333", "abc", true},
                 {"10.0.0.1", "abc", true},
                 {"localhost", "abc", true},
                 {"minio.example.org:9000", "abc", true},
                 {"x.r2.cloudflarestorage.com", "abc", false},
                 {"[::1]", "abc", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clt_endpoint e = {.tls = true};
        snprintf(e.host, sizeof e.host, "%s", cases[i].host);
        assert_int_equal(clt_endpoint_by_path(&e, cases[i].bucket), cases[i].by_path);
    }
    clt_endpoint e;
    assert_ok(clt_endpoint_of_region("cn-north-1", &e));
    assert_string_equal(e.host, "s3.cn-north-1.amazonaws.com.cn");
    assert_int_equal(clt_endpoint_of_region("evil.example.org/", &e), CLT_EUSAGE);
}

TEST(requests_to_this_machine_go_past_proxies)
{
    assert_true(clt_host_is_local("http://169.254.170.2/x"));
    assert_true(clt_host_is_local("http://127.0.0.1:1/x"));
    assert_true(clt_host_is_local("http://[fe80::1]/x"));
    assert_false(clt_host_is_local("https://169.254.example.org/"));
    assert_false(clt_host_is_local("https://s3.example.org/127.0.0.1"));
}

/* --- parts and answers --- */

TEST(parts_are_as_small_as_the_limits_allow)
{
    const uint64_t mib = 1 << 20;
    assert_int_equal(clt_s3_part_size(1), 8 * mib);
    assert_int_equal(clt_s3_part_size(80000 * mib), 8 * mib);
    assert_int_equal(clt_s3_part_size(80000 * mib + 1), 9 * mib);
    for (uint64_t size = 1; size < (uint64_t)1 << 43; size = size * 3 + 1)
        assert_true(clt_div_up(size, clt_s3_part_size(size)) <= 10000);
}

TEST(what_answers_mean)
{
    static const struct {
        int code;
        const char *error;
        clt_s3_verdict verdict;
    } cases[] = {{200, "", CLT_S3_DONE},
                 {204, "", CLT_S3_DONE},
                 {206, "", CLT_S3_DONE},
                 {0, "", CLT_S3_AGAIN},
                 {500, "InternalError", CLT_S3_AGAIN},
                 {502, "", CLT_S3_AGAIN},
                 {504, "", CLT_S3_AGAIN},
                 {503, "SlowDown", CLT_S3_SLOWER},
                 {503, "", CLT_S3_SLOWER},
                 {429, "", CLT_S3_SLOWER},
                 {400, "RequestTimeout", CLT_S3_AGAIN},
                 {409, "OperationAborted", CLT_S3_AGAIN},
                 {200, "InternalError", CLT_S3_AGAIN},
                 {200, "AccessDenied", CLT_S3_GIVE_UP},
                 {301, "PermanentRedirect", CLT_S3_NEW_PLACE},
                 {307, "", CLT_S3_NEW_PLACE},
                 {400, "AuthorizationHeaderMalformed", CLT_S3_NEW_PLACE},
                 {400, "ExpiredToken", CLT_S3_NEW_KEYS},
                 {403, "RequestTimeTooSkewed", CLT_S3_NEW_CLOCK},
                 {403, "SignatureDoesNotMatch", CLT_S3_GIVE_UP},
                 {400, "", CLT_S3_GIVE_UP},
                 {401, "", CLT_S3_GIVE_UP},
                 {403, "", CLT_S3_GIVE_UP},
                 {404, "NoSuchKey", CLT_S3_GIVE_UP},
                 {412, "PreconditionFailed", CLT_S3_GIVE_UP},
                 {501, "NotImplemented", CLT_S3_GIVE_UP}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(clt_s3_judge(cases[i].code, cases[i].error, false), cases[i].verdict);
    assert_int_equal(clt_s3_judge(200, "", true), CLT_S3_AGAIN);
}

TEST(sizes_are_digits_and_fit)
{
    static const char *const wrong[] = {
        "", "-1", "+1", " 1", "1 ", "0x10", "1.0", "9223372036854775808", "18446744073709551616"};
    uint64_t size = 0;
    assert_true(clt_s3_parse_size("0", &size));
    assert_true(size == 0);
    assert_true(clt_s3_parse_size("9223372036854775807", &size));
    assert_true(size == INT64_MAX);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(clt_s3_parse_size(wrong[i], &size));
}

/* --- keys --- */

TEST(cancelled_requests_for_keys_are_not_made)
{
    CLT_SCOPED(clt_profile) *profile = NULL;
    CLT_SCOPED(clt_credentials) *credentials = NULL;
    clt_keys keys;
    clear_environment();
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/", 1);
    assert_ok(clt_profile_open(&profile));
    assert_ok(clt_credentials_open(profile, "us-east-1", "", &credentials));
    clt_credentials_cancel(credentials);
    assert_int_equal(clt_credentials_get(credentials, &keys), CLT_EINTERRUPTED);
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

TEST(who_has_keys_leaves_no_core_dump)
{
    CLT_SCOPED(clt_profile) *profile = NULL;
    CLT_SCOPED(clt_credentials) *credentials = NULL;
    clt_keys keys;
    struct rlimit limit;
    clear_environment();
    setenv("AWS_ACCESS_KEY_ID", "TESTKEY", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "TEST/SECRET", 1);
    assert_ok(clt_profile_open(&profile));
    assert_ok(clt_credentials_open(profile, "us-east-1", "", &credentials));
    assert_ok(clt_credentials_get(credentials, &keys));
    assert_string_equal(keys.secret, "TEST/SECRET");
    assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
    assert_int_equal(limit.rlim_cur, 0);
    clear_environment();
}

/* Writes the output of a profile's program: keys that are valid from 2026-11-22T11:01:10Z on for some
 * seconds. */
static void print_keys(const char *access, int seconds)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_str_printf(&text,
                   "{\"Version\": 1, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"TEST/SECRET\", "
                   "\"SessionToken\": \"token\", \"Expiration\": \"2026-11-22T11:%02d:%02dZ\"}",
                   access, 1 + (10 + seconds) / 60, (10 + seconds) % 60);
    put_file("keys.json", text.text, text.length);
}

/* Keys that are valid for 60 s, in simulated time: they are fetched again after three quarters of their
 * life. If that fails, the old keys serve to their end, and after that no keys do. */
TEST(keys_that_live_for_a_minute_are_fetched_again_ahead)
{
    CLT_SCOPED(clt_profile) *profile = NULL;
    CLT_SCOPED(clt_credentials) *credentials = NULL;
    CLT_SCOPED(clt_str) config = {0};
    const double begin = 1795345270;
    clt_keys keys;
    clear_environment();
    clt_str_printf(&config, "[default]\ncredential_process = cat '%s'\n", in_dir("keys.json"));
    setenv("AWS_CONFIG_FILE", put_file("config", config.text, config.length), 1);
    assert_ok(clt_profile_open(&profile));
    assert_ok(clt_credentials_open(profile, "us-east-1", "", &credentials));
    print_keys("FIRST", 60);
    assert_ok(clt_credentials_get_at(credentials, begin, &keys));
    assert_string_equal(keys.access, "FIRST");
    assert_int_equal(keys.expires, (int64_t)begin + 60);
    print_keys("SECOND", 120);
    assert_ok(clt_credentials_get_at(credentials, begin + 44, &keys));
    assert_string_equal(keys.access, "FIRST");
    assert_ok(clt_credentials_get_at(credentials, begin + 46, &keys));
    assert_string_equal(keys.access, "SECOND");
    assert_string_equal(clt_credentials_source(credentials), "process");
    /* the next keys are due after three quarters of the remaining 74 s, and cannot be fetched */
    assert_int_equal(remove(in_dir("keys.json")), 0);
    assert_ok(clt_credentials_get_at(credentials, begin + 119, &keys));
    assert_string_equal(keys.access, "SECOND");
    assert_int_equal(clt_credentials_get_at(credentials, begin + 121, &keys), CLT_ESTORAGE);
    print_keys("THIRD", 200);
    assert_ok(clt_credentials_get_at(credentials, begin + 122, &keys));
    assert_string_equal(keys.access, "THIRD");
    /* refused by a server: fetched again immediately */
    print_keys("FOURTH", 200);
    clt_credentials_expired(credentials);
    assert_ok(clt_credentials_get_at(credentials, begin + 123, &keys));
    assert_string_equal(keys.access, "FOURTH");
    /* by a clock that is a day ahead, new keys have already expired: they serve nevertheless, since the
     * clock may be wrong */
    print_keys("FIFTH", 400);
    assert_ok(clt_credentials_get_at(credentials, begin + 86400, &keys));
    assert_string_equal(keys.access, "FIFTH");
    print_keys("SIXTH", 400);
    assert_ok(clt_credentials_get_at(credentials, begin + 86400 + 200, &keys));
    assert_string_equal(keys.access, "FIFTH");
    assert_ok(clt_credentials_get_at(credentials, begin + 86400 + 300, &keys));
    assert_string_equal(keys.access, "SIXTH");
    clear_environment();
}

TEST(secret_texts_do_not_move)
{
    CLT_SCOPED(clt_secret) secret = {0};
    clt_secret_room(&secret, 1000);
    const char *at = secret.text;
    for (int i = 0; i < 100; i++)
        clt_str_printf(&secret, "%010d", i);
    assert_ok(clt_str_check(&secret));
    assert_int_equal(secret.length, 1000);
    assert_ptr_equal(secret.text, at);
    clt_secret_free(&secret);
    assert_null(secret.text);
}

TEST(waits_grow_and_end_at_twenty_seconds)
{
    assert_true(clt_s3_delay(1, false, 1) == 0.05);
    assert_true(clt_s3_delay(2, false, 1) == 0.1);
    assert_true(clt_s3_delay(1, true, 1) == 1);
    assert_true(clt_s3_delay(3, true, 0.5) == 2);
    assert_true(clt_s3_delay(1000, true, 1) == 20);
    assert_true(clt_s3_delay(1000, false, 1) == 20);
    assert_true(clt_s3_delay(5, true, 0) == 0);
}

TEST(a_wait_that_the_server_asks_for_is_kept)
{
    assert_true(clt_retry_wait(1, CLT_S3_AGAIN, 503, 7) == 7);
    assert_true(clt_retry_wait(5, CLT_S3_SLOWER, 429, 0.25) == 0.25);
    for (int i = 0; i < 100; i++) {
        assert_true(clt_retry_wait(1, CLT_S3_SLOWER, 503, 3600) <= 1); /* at most a minute */
        assert_true(clt_retry_wait(1, CLT_S3_SLOWER, 503, 0) <= 1);
    }
}

/* A server that does not answer for half a minute, for example during a restart, costs only the wait. */
TEST(waits_without_an_answer_become_long)
{
    double most = 0, sum = 0;
    for (int attempts = 1; attempts < 8; attempts++) {
        double longest = 0;
        for (int i = 0; i < 1000; i++) {
            const double wait = clt_retry_wait(attempts, CLT_S3_AGAIN, 0, 0);
            assert_true(wait >= 0 && wait <= clt_s3_delay(attempts - (attempts > 1), attempts > 1, 1));
            longest = wait > longest ? wait : longest;
            sum += wait / 1000;
        }
        most = longest > most ? longest : most;
    }
    assert_true(most > 15 && most <= 20);
    assert_true(sum > 20); /* the average of the seven waits together */
}

/* --- jobs of one process --- */

static atomic_bool options_end;

/* Sets the options of one job again and again. */
static void *use_options(void *context)
{
    const clt_copies_options o = {.s3 = {.endpoint = context, .region = context, .allow_http = context},
                                  .gigabytes = 50};
    while (!atomic_load(&options_end))
        assert_ok(clt_copies_use(&o));
    return NULL;
}

/* A new address gets the options of one job, never a mixture of two jobs' options. */
TEST(options_of_two_jobs_do_not_mix)
{
    static char a[] = "a", b[] = "b";
    clt_thread *threads[2];
    atomic_store(&options_end, false);
    assert_ok(clt_copies_use(
        &(clt_copies_options){.s3 = {.endpoint = a, .region = a, .allow_http = a}, .gigabytes = 50}));
    assert_ok(clt_thread_start(&threads[0], "a", use_options, a));
    assert_ok(clt_thread_start(&threads[1], "b", use_options, b));
    for (int i = 0; i < 200000; i++) {
        const clt_s3_options now = clt_copies_now().s3;
        assert_true(now.endpoint[0] == now.region[0] && now.region[0] == now.allow_http[0]);
    }
    atomic_store(&options_end, true);
    for (int i = 0; i < 2; i++)
        clt_thread_join(threads[i]);
}
