package interop;

import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.producer.MessageProducer;
import com.taobao.metamorphosis.client.producer.PartitionSelector;
import com.taobao.metamorphosis.client.producer.RoundRobinPartitionSelector;
import com.taobao.metamorphosis.client.producer.SendResult;
import com.taobao.metamorphosis.cluster.Partition;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Sends {@code messages} (payload, attribute), or {@code count} generated ones (prefix and number; without a count until
 * it is stopped) with {@code intervalMs} between them, and prints each answer. With {@code defaultTopic} the topic
 * itself is not published.
 */
final class Produce {
    private Produce() {}

    static void run(Task task) throws Exception {
        Options options = task.options;
        String topic = options.text("topic");
        MetaMessageSessionFactory factory = Client.open(options);
        try {
            MessageProducer producer = factory.createProducer(selector(options));
            if (options.has("defaultTopic")) {
                producer.setDefaultTopic(options.text("defaultTopic"));
            } else {
                producer.publish(topic);
            }
            if (options.has("messages")) {
                List<Options> messages = options.list("messages");
                for (int i = 0; i < messages.size(); i++) {
                    Options message = messages.get(i);
                    byte[] payload = message.bytes("payload");
                    send(task, producer, i, new Message(topic, payload, message.text("attribute", null)));
                }
                return;
            }
            long count = options.number("count", Long.MAX_VALUE);
            for (int i = 0; i < count && !task.stopped(); i++) {
                if (i > 0) {
                    task.pause(options.number("intervalMs", 0));
                }
                byte[] payload = (options.text("prefix", "m-") + i).getBytes(StandardCharsets.UTF_8);
                send(task, producer, i, new Message(topic, payload));
            }
        } finally {
            Client.close(factory);
        }
    }

    private static PartitionSelector selector(Options options) {
        if (!options.has("partition")) {
            return new RoundRobinPartitionSelector();
        }
        Partition partition = new Partition(options.text("partition"));
        return (topic, partitions, message) -> partition;
    }

    private static void send(Task task, MessageProducer producer, int i, Message message) throws InterruptedException {
        String error;
        try {
            SendResult result = producer.sendMessage(message, 3, TimeUnit.SECONDS);
            if (result.isSuccess()) {
                Partition partition = result.getPartition();
                task.print("i", i, "ok", true, "broker", partition.getBrokerId(), "partition", partition.getPartition(),
                        "offset", result.getOffset(), "messageId", message.getId());
                return;
            }
            error = result.getErrorMessage();
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            error = Driver.reason(e);
        }
        task.print("i", i, "ok", false, "error", error);
    }
}
