package interop;

import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MetaClientConfig;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.consumer.MessageConsumer;
import com.taobao.metamorphosis.client.consumer.SimpleMessageConsumer;
import com.taobao.metamorphosis.cluster.Partition;
import com.taobao.metamorphosis.exception.MetaClientException;
import com.taobao.metamorphosis.utils.ZkUtils.ZKConfig;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** Short forms of what the commands do with the reference's client. */
final class Client {
    private Client() {}

    /** For the ZooKeeper {@code zk} and {@code zkRoot}, or the broker {@code server}. */
    static MetaMessageSessionFactory open(Options options) throws MetaClientException {
        MetaClientConfig config = new MetaClientConfig();
        if (options.has("server")) {
            config.setServerUrl(options.text("server"));
            return new MetaMessageSessionFactory(config);
        }
        ZKConfig zk = new ZKConfig();
        zk.zkConnect = options.text("zk");
        zk.zkRoot = options.text("zkRoot", "/meta");
        zk.zkSessionTimeoutMs = 6000;
        zk.zkConnectionTimeoutMs = 6000;
        zk.zkSyncTimeMs = 300; // the pause between two attempts of a rebalance
        config.setZkConfig(zk);
        return new MetaMessageSessionFactory(config);
    }

    static void close(MetaMessageSessionFactory factory) throws MetaClientException {
        try {
            factory.shutdown();
        } catch (NullPointerException e) {
            // Without a ZooKeeper its producers always fail there.
            if (factory.getMetaClientConfig().getServerUrl() == null) {
                throw e;
            }
        }
    }

    /** The client ignores a shutdown in the middle of a rebalance: waits for its end, up to 3 s. */
    static void close(MessageConsumer consumer) throws MetaClientException, InterruptedException {
        for (int i = 0; i < 300 && ((SimpleMessageConsumer) consumer).getFetchManager().isShutdown(); i++) {
            Thread.sleep(10);
        }
        consumer.shutdown();
    }

    /** Prints a message that was read. */
    static void print(Task task, Message message, Partition partition, long offset) {
        task.print("broker", partition.getBrokerId(), "partition", partition.getPartition(), "offset", offset,
                "messageId", message.getId(), "attribute", message.getAttribute(),
                "payload", payload(message));
    }

    static String payload(Message message) {
        return Base64.getEncoder().encodeToString(message.getData());
    }

    /** Size of the record that a message is in the broker's file: length, checksum, id and flag, attribute, payload. */
    static int recordSize(Message message) {
        String attribute = message.getAttribute();
        int head = attribute == null ? 0 : 4 + attribute.getBytes(StandardCharsets.UTF_8).length;
        return 20 + head + message.getData().length;
    }
}
