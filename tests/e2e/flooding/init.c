/*
 * The only program of a guest: loads the drivers that /modules lists, and from then on sends the
 * frames of /frames over and over. Each frame stands behind its length in two bytes, lowest first.
 * The first one is sent once: it says that a boot begins.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned char frames[1 << 16];

static void load_drivers(void)
{
	char path[128];
	FILE *list = fopen("/modules", "r");

	while (list && fgets(path, sizeof path, list)) {
		path[strcspn(path, "\n")] = 0;
		int file = open(path, O_RDONLY);

		syscall(SYS_finit_module, file, "", 0);
		close(file);
	}
}

int main(void)
{
	struct ifreq card = { .ifr_name = "eth0", .ifr_flags = IFF_UP };
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	int file = open("/frames", O_RDONLY);
	long size = read(file, frames, sizeof frames), first = 0;

	load_drivers();
	int out = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

	while (ioctl(out, SIOCSIFFLAGS, &card) < 0)
		usleep(1000);
	ioctl(out, SIOCGIFINDEX, &card);
	to.sll_ifindex = card.ifr_ifindex;
	for (;;)
		for (long at = first, length; at < size; at += 2 + length) {
			length = frames[at] | frames[at + 1] << 8;
			while (sendto(out, frames + at + 2, length, 0, (void *)&to, sizeof to) < 0)
				usleep(1000);
			if (first == 0)
				first = 2 + length;
			usleep(500);
		}
}
