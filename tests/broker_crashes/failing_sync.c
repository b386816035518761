/*
 * A disk whose syncs fail: preloaded into a broker. While the file named by METAQ_FAILING_SYNC exists, the next
 * fdatasync of a file whose path contains what stands in it fails, and removes it.
 *
 * A file of the commit log then loses what was written since its last sync, as on a real disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What the log's files held when they were last synced. */
static struct {
    ino_t inode;
    off_t length;
    char *bytes;
} synced[FILES];

static int of_inode(ino_t inode) {
    for (int i = 0; i < FILES; i++) {
        if (synced[i].inode == inode || synced[i].inode == 0) {
            synced[i].inode = inode;
            return i;
        }
    }
    abort();
}

static void remember(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) abort();
    int i = of_inode(status.st_ino);
    synced[i].length = status.st_size;
    synced[i].bytes = realloc(synced[i].bytes, status.st_size + 1);
    if (pread(fd, synced[i].bytes, status.st_size, 0) != status.st_size) abort();
}

static void forget_unsynced(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) abort();
    int i = of_inode(status.st_ino);
    if (ftruncate(fd, synced[i].length) != 0) abort();
    if (pwrite(fd, synced[i].bytes, synced[i].length, 0) != synced[i].length) abort();
}

static int is_to_fail(const char *path) {
    const char *trigger = getenv("METAQ_FAILING_SYNC");
    FILE *file = trigger ? fopen(trigger, "r") : NULL;
    if (!file) return 0;
    char part[256] = "";
    char *read = fgets(part, sizeof part, file);
    fclose(file);
    if (!read || !strstr(path, part)) return 0;
    return unlink(trigger) == 0;
}

int fdatasync(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    int is_log = strstr(path, "/commitlog.") != NULL;

    pthread_mutex_lock(&lock);
    int result;
    if (is_to_fail(path)) {
        if (is_log) forget_unsynced(fd);
        errno = EIO;
        result = -1;
    } else {
        result = (int)syscall(SYS_fdatasync, fd);
        if (result == 0 && is_log) remember(fd);
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
