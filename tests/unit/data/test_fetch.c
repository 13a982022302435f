/* SPDX-License-Identifier: Apache-2.0
 * ctest-labels: quick
 *
 * Fetching data sets from local copies and from a server on this machine: published files are accepted,
 * complete, recompressed, uncompressed, or in two parts; anything else is refused and leaves no file of
 * that name. Archives with one file are unpacked, or refused. SHA-256 is tested with its published
 * examples, and the conversion of CIFAR-10 to idx. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include "tests/unit/test.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "engine/base/mem.h"
#include "engine/data/open/fetch.h"
#include "engine/files/fileio.h"
#include "engine/files/sha256.h"

static bool there(const char *path)
{
    return clt_file_exists(in_dir(path));
}

static void assert_holds(const char *path, bool gunzip, const void *data, size_t size)
{
    CLT_FREED char *found = NULL;
    size_t length;
    assert_ok(clt_file_read(in_dir(path), gunzip, 0, CLT_EDATA, &found, &length));
    assert_int_equal(length, size);
    assert_memory_equal(found, data, size);
}

static void assert_text_has(const char *part)
{
    if (!strstr(clt_error_text(), part))
        fail_msg("the message has no '%s': %s", part, clt_error_text());
}

/* --- the sets of these tests --- */

enum { SIZE = 300000 };
static char content[SIZE];
static char *packed;
static size_t packed_size;
static char text_hash[CLT_SHA256_TEXT], packed_hash[CLT_SHA256_TEXT], content_hash[CLT_SHA256_TEXT];
static char base[64];
static clt_fetch_set sets[3];

FIXTURE(prepare)
{
    uint32_t seed = 1;
    for (int i = 0; i < SIZE; i++) {
        seed = seed * 1664525 + 1013904223;
        content[i] = (char)(seed >> 24);
    }
    free(packed);
    assert_ok(clt_gzip(content, SIZE, &packed, &packed_size));
    clt_sha256_text(content, 1000, text_hash);
    clt_sha256_text(content, SIZE, content_hash);
    clt_sha256_text(packed, packed_size, packed_hash);
    sets[0] = (clt_fetch_set){.name = "pair",
                              .files = {{.name = "a.gz",
                                         .other = "b.bin",
                                         .sha256 = packed_hash,
                                         .content = content_hash,
                                         .bytes = packed_size},
                                        {.name = "note.txt", .sha256 = text_hash, .bytes = 1000}}};
    sets[1] =
        (clt_fetch_set){.name = "one", .files = {{.name = "note.txt", .sha256 = text_hash, .bytes = 1000}}};
    return 0;
}

static clt_status fetch(int set, const char *from, clt_fetch_result *r)
{
    char out[512];
    snprintf(out, sizeof out, "%s", in_dir("out"));
    clt_fetch_options o = {.sets = sets, .set = &sets[set], .out = out, .from = from};
    return clt_fetch(&o, r);
}

/* --- SHA-256 --- */

TEST(test_sha256)
{
    char text[CLT_SHA256_TEXT], *million = malloc(1000000);
    assert_string_equal(clt_sha256_text("", 0, text),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(clt_sha256_text("abc", 3, text),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(clt_sha256_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, text),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_non_null(million);
    memset(million, 'a', 1000000);
    assert_string_equal(clt_sha256_text(million, 1000000, text),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* --- local copies --- */

TEST_BETWEEN(test_local, prepare, NULL)
{
    clt_fetch_result r;
    put_file("from/a.gz", packed, packed_size);
    put_file("from/note.txt", content, 1000);
    assert_ok(fetch(0, in_dir("from"), &r));
    assert_int_equal(r.files, 2);
    assert_int_equal(r.there, 0);
    assert_int_equal(r.bytes, packed_size + 1000);
    assert_holds("out/a.gz", false, packed, packed_size);
    assert_holds("out/note.txt", false, content, 1000);
    /* Again: no file is needed. */
    assert_int_equal(fetch(0, "/nonexistent", &r), CLT_EUSAGE);
    assert_ok(clt_remove_tree(in_dir("from")));
    assert_int_equal(mkdir(in_dir("from"), 0700), 0);
    assert_ok(fetch(0, in_dir("from"), &r));
    assert_int_equal(r.there, 2);
}

/* Unpacked by a user, under the other name, in a folder named after the set, and file://. */
TEST_BETWEEN(test_other_forms, prepare, NULL)
{
    clt_fetch_result r;
    char url[600];
    put_file("from/pair/b.bin", content, SIZE);
    put_file("from/note.txt", content, 1000);
    snprintf(url, sizeof url, "file://%s", in_dir("from"));
    assert_ok(fetch(0, url, &r));
    assert_holds("out/a.gz", true, content, SIZE);
    /* One file, for a set of one file. */
    assert_ok(fetch(1, in_dir("from/note.txt"), &r));
    assert_ok(fetch(0, in_dir("from/note.txt"), &r)); /* the set is complete, so the source is not used */
    assert_ok(clt_remove_tree(in_dir("out")));
    assert_int_equal(fetch(0, in_dir("from/note.txt"), &r), CLT_EUSAGE);
    assert_text_has("give the folder that contains them");
    assert_false(there("out"));
}

TEST_BETWEEN(test_wrong_copies, prepare, NULL)
{
    clt_fetch_result r;
    put_file("from/a.gz", packed, packed_size - 1);
    put_file("from/note.txt", content, 1000);
    assert_int_equal(fetch(0, in_dir("from"), &r), CLT_EDATA);
    assert_text_has("is not the published a.gz");
    assert_text_has(packed_hash);
    assert_false(there("out"));
    put_file("from/a.gz", packed, packed_size);
    put_file("from/note.txt", content + 1, 1000);
    assert_int_equal(fetch(0, in_dir("from"), &r), CLT_EDATA);
    assert_true(there("out/a.gz"));
    assert_false(there("out/note.txt"));
    assert_int_equal(unlink(in_dir("from/note.txt")), 0);
    assert_int_equal(fetch(0, in_dir("from"), &r), CLT_EDATA);
    assert_text_has("there is no 'note.txt'");
    /* A user's own file of that name is not replaced. */
    put_file("from/note.txt", content, 1000);
    put_file("out/note.txt", "mine", 4);
    assert_int_equal(fetch(0, in_dir("from"), &r), CLT_EDATA);
    assert_text_has("remove it or choose another folder");
    assert_holds("out/note.txt", false, "mine", 4);
}

/* --- a server --- */

static struct {
    int socket, port, requests, ranged;
    int away, away_port; /* a second socket, which an FTP client would call; no call is expected */
    pthread_t thread;
} server;

static void reply(int c, const char *request)
{
    char head[256], path[128] = "";
    unsigned long long from = 0;
    const char *range = strstr(request, "Range: bytes=");
    (void)sscanf(request, "GET %127s", path);
    if (range && sscanf(range, "Range: bytes=%llu-", &from) == 1)
        server.ranged++;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : "";
    const char *data = strcmp(name, "a.gz") == 0 ? packed : strcmp(name, "note.txt") == 0 ? content : NULL;
    size_t size = strcmp(name, "a.gz") == 0 ? packed_size : 1000;
    bool wrong = strncmp(path, "/wrong/", 7) == 0, cut = strncmp(path, "/cut/", 5) == 0;
    bool moved = strncmp(path, "/moved/", 7) == 0, away = strncmp(path, "/away/", 6) == 0;
    if (moved || away) {
        snprintf(head, sizeof head,
                 "HTTP/1.0 302 Found\r\nContent-Length: 0\r\nLocation: %s:%d/good/%s\r\n\r\n",
                 away ? "ftp://127.0.0.1" : "http://127.0.0.1", away ? server.away_port : server.port, name);
        (void)!write(c, head, strlen(head));
        return;
    }
    if (!data || strncmp(path, "/none/", 6) == 0 || from >= size) {
        snprintf(head, sizeof head, "HTTP/1.0 %s\r\nContent-Length: 0\r\n\r\n",
                 data && from >= size ? "416 Range Not Satisfiable" : "404 Not Found");
        (void)!write(c, head, strlen(head));
        return;
    }
    snprintf(head, sizeof head, "HTTP/1.0 %s\r\nContent-Length: %llu\r\n",
             from ? "206 Partial Content" : "200 OK", size - from);
    (void)!write(c, head, strlen(head));
    if (from)
        snprintf(head, sizeof head, "Content-Range: bytes %llu-%zu/%zu\r\n\r\n", from, size - 1, size);
    else
        snprintf(head, sizeof head, "\r\n");
    (void)!write(c, head, strlen(head));
    size_t end = cut ? from + (size - from) / 2 : size;
    (void)!write(c, (wrong ? content + 7 : data) + from, end - from);
}

static void *serve(void *context)
{
    (void)context;
    for (;;) {
        int c = accept(server.socket, NULL, NULL);
        char request[4096] = "";
        size_t used = 0;
        if (c < 0)
            return NULL;
        while (used < sizeof request - 1 && !strstr(request, "\r\n\r\n")) {
            ssize_t n = read(c, request + used, sizeof request - 1 - used);
            if (n <= 0)
                break;
            used += (size_t)n;
        }
        server.requests++;
        reply(c, request);
        shutdown(c, SHUT_WR);
        while (read(c, request, sizeof request) > 0)
            ;
        close(c);
    }
}

/* Listens on the loopback interface; *port is 0 if there is none. */
static int listen_here(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    bool up = s >= 0 && bind(s, (struct sockaddr *)&address, length) == 0 && listen(s, 8) == 0 &&
              getsockname(s, (struct sockaddr *)&address, &length) == 0;
    *port = up ? ntohs(address.sin_port) : 0;
    return s;
}

static int start_server(void **state)
{
    server.socket = listen_here(&server.port);
    server.away = listen_here(&server.away_port);
    bool up = server.port != 0 && server.away_port != 0;
    server.port = up ? server.port : 0;
    server.requests = server.ranged = 0;
    if (up)
        assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
    unsetenv("http_proxy");
    unsetenv("HTTP_PROXY");
    unsetenv("all_proxy");
    unsetenv("ALL_PROXY");
    return prepare(state);
}

FIXTURE(stop_server)
{
    if (server.port) {
        shutdown(server.socket, SHUT_RDWR);
        pthread_join(server.thread, NULL);
    }
    close(server.socket);
    close(server.away);
    return 0;
}

/* The path of an installed program, or NULL. It is valid until the next call. */
static const char *program_named(const char *name)
{
    static const char *const folders[] = {"/usr/bin", "/usr/local/bin", "/bin"};
    static char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        if (access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

static void need_server(void)
{
    if (server.port == 0 || (!program_named("curl") && !program_named("wget"))) {
        print_message("SKIP: there is no loopback network, or neither curl nor wget\n");
        skip();
    }
}

static const char *url(const char *folder)
{
    snprintf(base, sizeof base, "http://127.0.0.1:%d/%s/", server.port, folder);
    return base;
}

TEST_BETWEEN(test_download, start_server, stop_server)
{
    clt_fetch_result r;
    need_server();
    assert_ok(fetch(0, url("good"), &r));
    assert_holds("out/a.gz", false, packed, packed_size);
    assert_holds("out/note.txt", false, content, 1000);
    assert_false(there("out/a.gz.part"));
    assert_false(there("out/.fetch.lock"));
}

/* The first mirror has no file, the second sends another one, the third is right. */
TEST_BETWEEN(test_mirrors, start_server, stop_server)
{
    char mirrors[3][64];
    clt_fetch_result r;
    need_server();
    const char *const folders[] = {"none", "wrong", "good"};
    for (int i = 0; i < 3; i++) {
        snprintf(mirrors[i], sizeof mirrors[i], "http://127.0.0.1:%d/%s", server.port, folders[i]);
        sets[1].mirrors[i].base = mirrors[i];
    }
    assert_ok(fetch(1, NULL, &r));
    assert_holds("out/note.txt", false, content, 1000);
    assert_ok(clt_remove_tree(in_dir("out")));
    sets[1].mirrors[2].base = NULL;
    assert_int_equal(fetch(1, NULL, &r), CLT_EDATA);
    assert_text_has("404");
    assert_text_has("is not the published file");
    assert_text_has("By hand");
    assert_text_has("cltrain data fetch one --from FOLDER");
    assert_false(there("out"));
}

/* A connection breaks; the next call continues after the received bytes. */
TEST_BETWEEN(test_resume, start_server, stop_server)
{
    clt_fetch_result r;
    need_server();
    put_file("out/a.gz.part", packed, packed_size / 3);
    assert_ok(fetch(0, url("good"), &r));
    assert_int_equal(server.ranged, 1);
    assert_holds("out/a.gz", false, packed, packed_size);
    assert_int_equal(unlink(in_dir("out/a.gz")), 0);
    assert_int_equal(fetch(0, url("cut"), &r), CLT_EDATA);
    assert_false(there("out/a.gz"));
    assert_true(there("out/a.gz.part"));
    assert_ok(fetch(0, url("good"), &r));
    assert_true(server.ranged >= 2);
    assert_holds("out/a.gz", false, packed, packed_size);
    /* The rest of another file is discarded. */
    assert_int_equal(unlink(in_dir("out/a.gz")), 0);
    put_file("out/a.gz.part", content, 5000);
    assert_ok(fetch(0, url("good"), &r));
    assert_holds("out/a.gz", false, packed, packed_size);
    /* A complete and correct rest is discarded as well. */
    assert_int_equal(unlink(in_dir("out/a.gz")), 0);
    put_file("out/a.gz.part", packed, packed_size);
    assert_ok(fetch(0, url("good"), &r));
    assert_holds("out/a.gz", false, packed, packed_size);
}

static char *all_programs; /* PATH before the test */

/* Makes a folder with only this program the PATH, so that the other one is not found; false if the program
 * is missing. */
static bool only_program(const char *name)
{
    const char *path = program_named(name);
    char link[64];
    if (!path) {
        print_message("SKIP: %s is not installed\n", name);
        return false;
    }
    if (clt_file_exists(in_dir("bin")))
        assert_ok(clt_remove_tree(in_dir("bin")));
    assert_int_equal(mkdir(in_dir("bin"), 0700), 0);
    snprintf(link, sizeof link, "bin/%s", name);
    assert_int_equal(symlink(path, in_dir(link)), 0);
    setenv("PATH", in_dir("bin"), 1);
    return true;
}

static int keep_path(void **state)
{
    all_programs = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    return start_server(state);
}

static int give_path_back(void **state)
{
    setenv("PATH", all_programs, 1);
    free(all_programs);
    return stop_server(state);
}

/* Both programs follow a redirection to another place of the web, and none to anything else, such as
 * FTP. */
TEST_BETWEEN(test_redirected, keep_path, give_path_back)
{
    static const char *const programs[] = {"curl", "wget"};
    clt_fetch_result r;
    need_server();
    for (int i = 0; i < 2; i++) {
        if (!only_program(programs[i]))
            continue;
        assert_ok(fetch(1, url("moved"), &r));
        assert_holds("out/note.txt", false, content, 1000);
        assert_ok(clt_remove_tree(in_dir("out")));
        int before = server.requests;
        assert_int_equal(fetch(1, url("away"), &r), CLT_EDATA);
        assert_true(server.requests > before);
        assert_false(there("out/note.txt"));
        struct pollfd calls = {.fd = server.away, .events = POLLIN};
        if (poll(&calls, 1, 0) != 0)
            fail_msg("%s follows a redirection to FTP", programs[i]);
    }
}

static clt_status stop_at_once(void *context, const char *what, uint64_t done, uint64_t total)
{
    (void)context;
    (void)what;
    (void)done;
    (void)total;
    CLT_FAIL(CLT_EINTERRUPTED, "stopped");
}

TEST_BETWEEN(test_stopped, start_server, stop_server)
{
    char out[512];
    clt_fetch_result r;
    need_server();
    snprintf(out, sizeof out, "%s", in_dir("out"));
    clt_fetch_options o = {
        .sets = sets, .set = &sets[1], .out = out, .from = url("good"), .progress = stop_at_once};
    assert_int_equal(clt_fetch(&o, &r), CLT_EINTERRUPTED);
    assert_false(there("out/note.txt"));
}

/* --- an archive with one file --- */

static size_t put_little(char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(value >> 8 * i);
    return (size_t)bytes;
}

/* Writes a zip archive of `files` entries "x", "y", ... that all hold `content`, SIZE bytes, packed unless
 * `method` is 0. Its directory says that they have `length` bytes. Returns the archive's size. */
static size_t make_zip(char *zip, int files, int method, uint64_t length)
{
    enum { HEADER = 10, TRAILER = 8 }; /* of the gzip archive; a zip archive has the same middle and CRC-32 */
    const char *data = method ? packed + HEADER : content, *crc = packed + packed_size - TRAILER;
    size_t size = method ? packed_size - HEADER - TRAILER : SIZE, used = 0, begin[2] = {0};
    char same[26];
    put_little(same, 20, 2);
    put_little(same + 2, 0, 2);
    put_little(same + 4, (uint64_t)method, 2);
    put_little(same + 6, 0, 4);
    memcpy(same + 10, crc, 4);
    put_little(same + 14, size, 4);
    put_little(same + 18, length, 4);
    put_little(same + 22, 1, 2);
    put_little(same + 24, 0, 2);
    for (int i = 0; i < files; i++) {
        begin[i] = used;
        memcpy(zip + used, "PK\3\4", 4);
        memcpy(zip + used + 4, same, sizeof same);
        zip[used + 30] = (char)('x' + i);
        memcpy(zip + used + 31, data, size);
        used += 31 + size;
    }
    size_t directory = used;
    for (int i = 0; i < files; i++) {
        memset(zip + used, 0, 46);
        memcpy(zip + used, "PK\1\2", 4);
        memcpy(zip + used + 6, same, sizeof same);
        put_little(zip + used + 42, begin[i], 4);
        zip[used + 46] = (char)('x' + i);
        used += 47;
    }
    memset(zip + used, 0, 22);
    memcpy(zip + used, "PK\5\6", 4);
    put_little(zip + used + 8, (uint64_t)files, 2);
    put_little(zip + used + 10, (uint64_t)files, 2);
    put_little(zip + used + 12, used - directory, 4);
    put_little(zip + used + 16, directory, 4);
    return used + 22;
}

/* Fetches the set "packed" from an archive of this size; the archive's hash counts as published. */
static clt_status fetch_zip(const char *zip, size_t size, clt_fetch_result *r)
{
    static char hash[CLT_SHA256_TEXT];
    clt_sha256_text(zip, size, hash);
    sets[1] = (clt_fetch_set){.name = "packed",
                              .kind = CLT_FETCH_ZIP,
                              .files = {{.name = "text.zip", .sha256 = hash, .bytes = size}},
                              .unpacked = "text.txt",
                              .unpacked_sha256 = content_hash};
    assert_ok(clt_remove_tree(in_dir("out")));
    put_file("from/text.zip", zip, size);
    return fetch(1, in_dir("from"), r);
}

TEST_BETWEEN(test_zip, prepare, NULL)
{
    clt_fetch_result r;
    CLT_FREED char *zip = malloc(2 * SIZE + 1000);
    assert_non_null(zip);
    for (int method = 0; method <= 8; method += 8) {
        assert_ok(fetch_zip(zip, make_zip(zip, 1, method, SIZE), &r));
        assert_int_equal(r.files, 1);
        assert_int_equal(r.there, 0);
        assert_int_equal(r.bytes, SIZE);
        assert_holds("out/text.txt", false, content, SIZE);
        assert_false(there("out/text.zip"));
    }
    assert_ok(clt_remove_tree(in_dir("from")));
    assert_int_equal(mkdir(in_dir("from"), 0700), 0);
    assert_ok(fetch(1, in_dir("from"), &r)); /* no file is needed */
    assert_int_equal(r.there, 1);
    /* a changed text is fetched again */
    size_t size = make_zip(zip, 1, 8, SIZE);
    put_file("from/text.zip", zip, size);
    put_file("out/text.txt", content, SIZE - 1);
    assert_ok(fetch(1, in_dir("from"), &r));
    assert_int_equal(r.there, 0);
    assert_holds("out/text.txt", false, content, SIZE);
    /* archives with the published hash that are wrong nevertheless */
    assert_int_equal(fetch_zip(zip, make_zip(zip, 2, 8, SIZE), &r), CLT_EDATA);
    assert_text_has("holds 2 files, not one");
    assert_int_equal(fetch_zip(zip, make_zip(zip, 1, 8, SIZE - 1), &r), CLT_EDATA);
    assert_text_has("does not unpack to the 299999 bytes");
    assert_int_equal(fetch_zip(zip, make_zip(zip, 1, 8, SIZE + 1), &r), CLT_EDATA);
    assert_text_has("does not unpack to the 300001 bytes");
    assert_int_equal(fetch_zip(zip, make_zip(zip, 1, 8, UINT32_C(0xf0000000)), &r), CLT_EDATA);
    assert_text_has("more than the limit of 1073741824");
    assert_int_equal(fetch_zip(zip, make_zip(zip, 1, 12, SIZE), &r), CLT_EDATA);
    assert_text_has("compressed by method 12");
    size = make_zip(zip, 1, 8, SIZE);
    zip[1000] ^= 4;
    assert_int_equal(fetch_zip(zip, size, &r), CLT_EDATA);
    size = make_zip(zip, 1, 0, SIZE);
    zip[1000] ^= 4;
    assert_int_equal(fetch_zip(zip, size, &r), CLT_EDATA);
    assert_text_has("CRC-32");
    content_hash[0] ^= 1;
    assert_int_equal(fetch_zip(zip, make_zip(zip, 1, 8, SIZE), &r), CLT_EDATA);
    assert_text_has("what it holds has the SHA-256");
    assert_false(there("out/text.txt"));
}

/* --- CIFAR-10 --- */

enum { RECORD = 3073 };
static size_t tar_file(char *tar, size_t used, const char *name, int records, int label)
{
    memset(tar + used, 0, 512);
    snprintf(tar + used, 100, "cifar-10-batches-bin/%s", name);
    snprintf(tar + used + 124, 12, "%011o", (unsigned)(records * RECORD));
    used += 512;
    for (int r = 0; r < records; r++) {
        memset(tar + used + (size_t)r * RECORD, 16 * label + r, RECORD);
        tar[used + (size_t)r * RECORD] = (char)label;
    }
    return used + ((size_t)records * RECORD + 511) / 512 * 512;
}

static size_t make_tar(char *tar, int bad_label)
{
    size_t used = tar_file(tar, 0, "batches.meta.txt", 1, 0);
    for (int b = 1; b <= 5; b++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", b);
        used = tar_file(tar, used, name, 2, b == 3 ? bad_label : b);
    }
    used = tar_file(tar, used, "test_batch.bin", 3, 9);
    memset(tar + used, 0, 1024);
    return used + 1024;
}

TEST_BETWEEN(test_cifar10, prepare, NULL)
{
    static char tar[100000];
    clt_fetch_result r = {0};
    char *data, folder[512];
    size_t length;
    size_t size = make_tar(tar, 3);
    assert_int_equal(mkdir(in_dir("out"), 0700), 0);
    snprintf(folder, sizeof folder, "%s", in_dir("out"));
    assert_ok(clt_fetch_cifar10(tar, size, folder, &r));
    assert_int_equal(r.files, 4);
    assert_ok(clt_file_read(in_dir("out/train-images-idx4-ubyte"), false, 0, CLT_EDATA, &data, &length));
    assert_int_equal(length, 20 + 10 * 3072);
    assert_memory_equal(data, "\0\0\x08\x04\0\0\0\x0a\0\0\0\x03\0\0\0\x20\0\0\0\x20", 20);
    assert_int_equal((uint8_t)data[20], 16);
    assert_int_equal((uint8_t)data[20 + 3 * 3072], 33);
    free(data);
    assert_holds("out/train-labels-idx1-ubyte", false, "\0\0\x08\x01\0\0\0\x0a\1\1\2\2\3\3\4\4\5\5", 18);
    assert_holds("out/test-labels-idx1-ubyte", false, "\0\0\x08\x01\0\0\0\x03\x09\x09\x09", 11);
    /* Invalid labels, records that are cut, sizes that lead out of the archive. */
    size = make_tar(tar, 10);
    assert_int_equal(clt_fetch_cifar10(tar, size, folder, &r), CLT_EDATA);
    assert_text_has("label 10");
    size = make_tar(tar, 3);
    for (size_t cut = 0; cut < size - 1024 - 509;
         cut += 511) /* the last record ends 509 bytes before its block does */
        assert_int_equal(clt_fetch_cifar10(tar, cut, folder, &r), CLT_EDATA);
    memcpy(tar + 124, "77777777777", 11);
    assert_int_equal(clt_fetch_cifar10(tar, size, folder, &r), CLT_EDATA);
    memcpy(tar + 124, "-1xxxxxxxxx", 11);
    assert_int_equal(clt_fetch_cifar10(tar, size, folder, &r), CLT_EDATA);
    memset(tar, 0xff, size);
    assert_int_equal(clt_fetch_cifar10(tar, size, folder, &r), CLT_EDATA);
}

/* --- the table that ships --- */

TEST(test_sets)
{
    for (const clt_fetch_set *s = clt_fetch_sets; s->name; s++) {
        assert_ptr_equal(clt_fetch_find(clt_fetch_sets, s->name), s);
        assert_true(s->kind == CLT_FETCH_VOLUMES || clt_fetch_bytes(clt_fetch_sets, s) > 1000);
        for (int i = 0; i < CLT_FETCH_FILES && s->files[i].name; i++) {
            const clt_fetch_file *f = &s->files[i];
            assert_true(strlen(f->sha256) == 64 && strspn(f->sha256, "0123456789abcdef") == 64);
            assert_true(!f->content ||
                        (strlen(f->content) == 64 && strspn(f->content, "0123456789abcdef") == 64));
        }
        assert_true((s->kind == CLT_FETCH_ZIP) == (s->unpacked != NULL));
        assert_true(!s->unpacked || strspn(s->unpacked_sha256, "0123456789abcdef") == 64);
        for (int i = 0; i < CLT_FETCH_MIRRORS && s->mirrors[i].base; i++)
            assert_true(s->mirrors[i].base[strlen(s->mirrors[i].base) - 1] == '/');
        for (int i = 0; i < 2 && s->needs[i]; i++)
            assert_non_null(clt_fetch_find(clt_fetch_sets, s->needs[i]));
    }
    assert_null(clt_fetch_find(clt_fetch_sets, "nothing"));
    assert_string_equal(clt_fetch_of_path("data/mnist/train-images-idx3-ubyte.gz")->name, "mnist");
    assert_string_equal(clt_fetch_of_path("/home/me/data/gpt2")->name, "gpt2");
    assert_string_equal(clt_fetch_of_path("data/tinyshakespeare-gpt2")->name, "tinyshakespeare-gpt2");
    assert_string_equal(clt_fetch_of_path("data/volumes-sample/classes")->name, "volumes-sample");
    assert_null(clt_fetch_of_path("data/mine"));
    assert_null(clt_fetch_of_path("mydata/mnist"));
    assert_null(clt_fetch_of_path("data/mnist2/x"));
}

FIXTURE(free_packed)
{
    free(packed);
    return 0;
}

TEST_PROGRAM(.fresh_folder = true, .tear_down = free_packed);
