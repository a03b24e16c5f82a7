package machine

import "testing"

// TestReadPosition reads what a member prints that was started without a quorum, and nothing from a machine that lies.
func TestReadPosition(t *testing.T) {
	const page = "# TYPE etcd_server_proposals_applied_total gauge\netcd_server_proposals_applied_total 1.234567e+06\n" +
		"etcd_server_proposals_committed_total 0\netcd_debugging_mvcc_current_revision 1.795765327003e+12\n"
	index, revision, err := readPosition(page)
	if err != nil || index != 1234567 || revision != 1795765327003 {
		t.Errorf("index %d, revision %d, %v", index, revision, err)
	}
	for _, text := range []string{
		"", "etcd_server_proposals_applied_total 7\n", "etcd_debugging_mvcc_current_revision 7\n",
		"etcd_server_proposals_applied_total -1\netcd_debugging_mvcc_current_revision 7\n",
		"etcd_server_proposals_applied_total NaN\netcd_debugging_mvcc_current_revision 7\n",
		"etcd_server_proposals_applied_total 1e99\netcd_debugging_mvcc_current_revision 7\n",
		"etcd_server_proposals_applied_total 1.5\netcd_debugging_mvcc_current_revision 7\n",
		"etcd_server_proposals_applied_total $(id)\netcd_debugging_mvcc_current_revision 7\n",
	} {
		if index, revision, err := readPosition(text); err == nil {
			t.Errorf("%q is read as %d, %d", text, index, revision)
		}
	}
}
