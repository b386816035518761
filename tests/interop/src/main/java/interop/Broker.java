package interop;

import com.taobao.metamorphosis.server.assembly.MetaMorphosisBroker;
import com.taobao.metamorphosis.server.utils.MetaConfig;
import java.nio.file.Path;

/** Starts the reference's broker in the foreground. The argument is its configuration file. */
final class Broker {
    private Broker() {}

    public static void main(String[] args) {
        try {
            MetaConfig config = new MetaConfig();
            config.loadFromFile(Path.of(args[0]).toAbsolutePath().toString()); // it fails on a bare file name
            config.verify();
            new MetaMorphosisBroker(config).start(); // installs its own shutdown hook
            System.err.println("READY meta://" + config.getHostName() + ":" + config.getServerPort());
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // the threads it has started would keep the JVM alive
        }
    }
}
