/*
 * A disk that hangs: preloaded into a broker. While the file named by METAQ_HANGING_DISK exists, no sync ends.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wait_for_the_disk(void) {
    const char *trigger = getenv("METAQ_HANGING_DISK");
    while (trigger && access(trigger, F_OK) == 0) usleep(10000);
}

int fdatasync(int fd) {
    wait_for_the_disk();
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd) {
    wait_for_the_disk();
    return (int)syscall(SYS_fsync, fd);
}
